"""The lean routes of this door."""

from channels_app.bridge import views
from channels_app.lean import Route

ROUTES = [Route(r"/process", views.process, methods=("POST",))]
