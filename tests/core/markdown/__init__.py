"""Markdown: what Telegram's own parser (TDLib, offline) and the other channels make of it."""
