"""Stored files: content, signed links, quota, clean-up."""
