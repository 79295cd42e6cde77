"""Messages of the protocol as text, answers and links."""
