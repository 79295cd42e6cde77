"""Schedules under a clock that jumps, outages, many at once, and killed processes."""
