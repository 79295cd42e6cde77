"""A gateway with the scripted model, its users, and a client of ``/v1``."""

from tests.scripted import client, scripted, tokens

__all__ = ["client", "scripted", "tokens"]
