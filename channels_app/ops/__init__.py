"""Health, dashboard, doctor."""
