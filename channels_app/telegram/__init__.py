"""Telegram: webhook or long polling in, the Bot API out. Only this package imports ``telegram``."""
