"""HTTP endpoints: routing, authentication, throttling, reading bodies."""
