"""The URL of ``/process``."""

from django.urls import path

from channels_app.bridge import views

urlpatterns = [path("process", views.process)]
