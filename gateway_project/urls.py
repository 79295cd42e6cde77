"""The URLs that Django itself serves."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("api/", include("channels_app.api.urls")),
    path("", include("channels_app.webchat.urls")),
    path("", include("channels_app.admin.first_run.urls")),
    path("", include("channels_app.trace.urls")),
    path("", include("channels_app.bridge.urls")),
    path("", include("channels_app.telegram.urls")),
    path("", include("channels_app.intake.urls")),
    path("", include("channels_app.ops.health")),
]
