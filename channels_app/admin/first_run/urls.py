"""The addresses of the first run."""

from django.urls import URLPattern, path

from channels_app.admin.first_run import views

urlpatterns: list[URLPattern] = [
    path("first-run/", views.overview, name="first-run"),
    path("first-run/model", views.model, name="first-run-model"),
    path("first-run/message", views.message, name="first-run-message"),
    path("first-run/phone", views.phone, name="first-run-phone"),
    path("first-run/phone/state", views.phone_state, name="first-run-phone-state"),
    path("first-run/skip", views.skip, name="first-run-skip"),
    path("first-run/dismiss", views.dismiss, name="first-run-dismiss"),
]
