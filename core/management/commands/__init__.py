"""`manage.py render`."""
