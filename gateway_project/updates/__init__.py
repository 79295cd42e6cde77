"""Replace the code of this installation by a newer version, with a way back (decision 213)."""
