"""Plugins: long work that ``route_to_plugin`` reaches. No Django, no Celery in here."""
