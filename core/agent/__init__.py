"""The loop between the model and the tools, and the model's prompt."""
