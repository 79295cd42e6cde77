"""A gateway with the scripted model, its people, and a client of the door."""

from tests.scripted import client, scripted, tokens

__all__ = ["client", "scripted", "tokens"]
