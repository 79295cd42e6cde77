"""How messages come in and answers go out."""
