"""Schedules on channels: what fires when it is due, where it goes, and its buttons."""
