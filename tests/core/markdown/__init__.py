"""Markdown as Telegram's own parser (TDLib, offline) and the other channels show it."""
