"""Sending one delivery to its platform."""
