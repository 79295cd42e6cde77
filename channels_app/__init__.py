"""How the world reaches the gateway, and how it answers."""
