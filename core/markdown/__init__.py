"""Markdown as a document of (text, spans), and its renderings for the channels."""
