"""Notices to owners (``notices.py``; of a subject, such as outages or backups, the file of its name),
automatic replies to unknown senders.
"""
