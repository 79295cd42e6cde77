"""Sessions of agents, and the results that they send."""
