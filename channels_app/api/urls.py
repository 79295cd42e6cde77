"""The routes under ``/api/``."""

from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.routers import SimpleRouter

from channels_app.api import schedules, views

router = SimpleRouter(trailing_slash=False, use_regex_path=False)
router.register("sessions", views.Sessions, basename="sessions")
router.register("assistants", views.Assistants, basename="assistants")
router.register("models", views.Models, basename="models")
router.register("agent-sessions", views.AgentSessions, basename="agent-sessions")
router.register("runs", views.Runs, basename="runs")
router.register("files", views.Files, basename="files")
router.register("schedules", schedules.Schedules, basename="schedules")
router.register("requests", views.UnknownRequests, basename="requests")

urlpatterns = [
    *router.urls,
    path("sessions/<str:session_id>/files", views.SessionFiles.as_view()),
    path("sessions/<str:session_id>/messages", views.Messages.as_view()),
    path("schedules/<str:schedule_id>/occurrences", schedules.Occurrences.as_view()),
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    re_path(r"^(?P<rest>[\s\S]*)$", views.nothing_here),  # "$" would also match before a line end
]
