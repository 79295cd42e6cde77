"""The protocols of other people's clients: one base, and one mapping a protocol in its package."""
