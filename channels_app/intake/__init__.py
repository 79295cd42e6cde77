"""What every channel calls with a message."""
