"""Small stateless functions without database access."""
