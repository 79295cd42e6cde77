"""Plugins of ``route_to_plugin`` for long work. Imports neither Django nor Celery."""
