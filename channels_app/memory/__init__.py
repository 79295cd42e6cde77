"""An in-memory channel: for tests, demos, and as the smallest complete plugin."""
