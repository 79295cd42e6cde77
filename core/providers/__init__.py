"""Where the model comes from: one seam, several providers."""
