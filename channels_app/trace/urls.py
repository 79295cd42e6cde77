"""URLs of the trace pages."""

from django.urls import URLPattern, path

from channels_app.trace import views

urlpatterns: list[URLPattern] = [
    path("trace/<str:run_id>/view", views.trace, name="trace"),
    path("agent/view/<str:message_type>/<path:message_id>", views.message, name="message-view"),
]
