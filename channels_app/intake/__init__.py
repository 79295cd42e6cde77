"""Entry points for the messages of every channel: rule, commands, media, decisions, webhook."""
