"""A conversation: messages, inbox, runs, events, outbox. Knows no channel and no HTTP."""

VERSION = "0.1.0"  # as in pyproject.toml, which an installed copy may lack
