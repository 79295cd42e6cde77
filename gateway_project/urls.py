"""The URLs that Django itself serves."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, re_path

from channels_app.bridge.views import process
from channels_app.intake.webhook import webhook
from channels_app.ops import health
from channels_app.telegram.views import webhook as telegram_webhook
from channels_app.trace import views as trace

# Views that programs call: to these ``gateway_project.asgi`` routes without middleware.
VIEWS: list[URLPattern] = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
    path("process", process),
    re_path(r"^telegram/(?P<name>.{1,64})/webhook$", telegram_webhook),
    re_path(r"^channels/(?P<channel>[^/]{1,64})/(?P<name>.{1,64})/webhook$", webhook),
]
handler404 = "channels_app.api.views.not_found"
urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("api/", include("channels_app.api.urls")),
    path("", include("channels_app.webchat.urls")),
    path("", include("channels_app.admin.first_run.urls")),
    path("trace/<str:run_id>/view", trace.trace, name="trace"),
    path("agent/view/<str:message_type>/<path:message_id>", trace.message, name="message-view"),
    *VIEWS,
]
