"""What the assistant can do besides talking: one file a tool, and a registry."""
