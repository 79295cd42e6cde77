"""Schedules: their rules, their changes, and their occurrences."""
