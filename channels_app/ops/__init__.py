"""Health and metrics (``health.py``), the dashboard, the doctor."""
