"""A channel that exists in memory: for tests, demos, and as the plainest complete plugin."""
