"""Calls of tools that ask first, while processes are killed."""
