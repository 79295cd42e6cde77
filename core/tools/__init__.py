"""The assistant's tools: one file per tool, and a registry."""
