"""`manage.py up`, `footprint`, `sign_in_link`."""
