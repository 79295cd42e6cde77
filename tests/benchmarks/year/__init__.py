"""A gateway after a year of use: its rows, what its pages cost, and its size."""

MOST_QUERIES = 20  # of a page
MOST_MS = 200
