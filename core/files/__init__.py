"""Stored files: content, quota, clean-up."""
