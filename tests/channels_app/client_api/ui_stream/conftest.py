"""A gateway with the scripted model, its users, and a client of ``/ui/chat``."""

from tests.scripted import client, scripted, tokens

__all__ = ["client", "scripted", "tokens"]
