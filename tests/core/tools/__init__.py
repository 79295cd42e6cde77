"""Tools of the model."""
