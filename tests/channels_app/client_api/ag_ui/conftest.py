"""A gateway with the scripted model and tools that ask, its people, and clients of ``/ag-ui``."""

from tests.channels_app.client_api.asking_tools import asking, keys, member, owner

__all__ = ["asking", "keys", "member", "owner"]
