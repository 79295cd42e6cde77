"""Web Push: the words of a notification, its encryption and sending, and whether a page is in
view.
"""
