"""Wiring: settings, URLs, ASGI and Celery."""
