"""One delivery on its way: rate limits, doubt, secrets."""
