"""Notices to owners (``notices.py``; of a subject, such as outages, the file of its name), and
automatic replies to unknown senders.
"""
