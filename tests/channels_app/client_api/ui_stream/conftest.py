"""A gateway with the scripted model, its users, and a client of ``/ui/chat``; one with tools that
ask."""

from tests.channels_app.client_api.asking_tools import asking, keys, member, owner
from tests.scripted import client, scripted, tokens

__all__ = ["asking", "client", "keys", "member", "owner", "scripted", "tokens"]
