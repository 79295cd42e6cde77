"""Replies to platforms: blocks, edits while an answer grows, typing and reactions."""
