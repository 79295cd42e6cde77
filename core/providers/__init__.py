"""Where the model comes from, and what its failures mean."""
