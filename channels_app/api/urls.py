"""The routes under ``/api/``."""

from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView

from channels_app.api import views

urlpatterns = [
    path("sessions", views.Sessions.as_view()),
    path("sessions/<str:session_id>/files", views.SessionFiles.as_view()),
    path("agent-sessions", views.AgentSessions.as_view()),
    path("agent-sessions/<str:session_id>", views.AgentSession.as_view()),
    path("sessions/<str:session_id>", views.Session.as_view()),
    path("sessions/<str:session_id>/messages", views.Messages.as_view()),
    path("runs", views.Runs.as_view()),
    path("runs/<str:run_id>", views.RunDetail.as_view()),
    path("runs/<str:run_id>/cancel", views.CancelRun.as_view()),
    path("runs/<str:run_id>/sources/<str:source_id>/feedback", views.RateSource.as_view()),
    path("files", views.Files.as_view()),
    path("requests", views.UnknownRequests.as_view()),
    path("requests/<str:request_id>/decision", views.Decide.as_view()),
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    re_path(r"^(?P<rest>[\s\S]*)$", views.nothing_here),  # "$" would also match before a line end
]
