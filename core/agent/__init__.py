"""The loop between the model and the tools, and what it is told."""
