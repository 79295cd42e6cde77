"""The processes of one machine."""
