"""Commands of ``manage.py`` that speak for a channel."""
