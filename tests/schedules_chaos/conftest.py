"""Schedules of people on the in-memory channel."""

from tests.channels_app.running import guest, owner, runner

__all__ = ["guest", "owner", "runner"]
