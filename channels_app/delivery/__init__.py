"""One delivery on its way to its platform."""
