"""The REST interface ``/api/``."""
