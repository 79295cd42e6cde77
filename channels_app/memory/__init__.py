"""A channel in memory, for tests, with nearly every capability."""
