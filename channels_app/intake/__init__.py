"""Entry points for the messages of every channel."""
