"""Notices to owners with their texts (``notices.py``), automatic replies to unknown senders."""
