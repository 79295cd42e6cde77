"""The worker and the people of these tests."""

from tests.channels_app.running import guest, owner, runner

__all__ = ["guest", "owner", "runner"]
