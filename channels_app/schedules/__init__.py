"""Schedules on channels: firing what is due, the conversation it goes to, and buttons."""
