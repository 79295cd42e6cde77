"""The URL of the webhook."""

from django.urls import re_path

from channels_app.telegram import views

urlpatterns = [
    re_path(r"^telegram/(?P<name>.{1,64})/webhook$", views.webhook),
]
