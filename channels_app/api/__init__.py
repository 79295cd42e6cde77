"""The REST API under ``/api/``."""
