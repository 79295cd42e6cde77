"""Channels and endpoints: how messages come in, and how answers go out."""
