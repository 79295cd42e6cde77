"""Agent sessions, and the results that agents send in them."""
