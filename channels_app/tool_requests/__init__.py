"""Questions to the owner, or to a person, whether a tool may be used (decision 194)."""
