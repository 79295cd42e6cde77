"""Long work that the tool ``route_to_plugin`` reaches: presentations, slides, summaries. Imports
neither Django nor Celery.
"""
