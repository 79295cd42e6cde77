"""A gateway after a year of use: its rows, what its pages cost, and its size."""
