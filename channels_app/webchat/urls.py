"""Routes of the web chat: pages and their JSON for Django, and the WebSockets."""

from typing import Any

from django.urls import URLPattern, path

from channels_app.asgi.router import Route, names_our_host
from channels_app.webchat import decision, files, views
from channels_app.webchat.admin_notifications import AdminNotificationsConsumer
from channels_app.webchat.consumers import FOREIGN, WebChatConsumer

urlpatterns: list[URLPattern] = [
    path("", views.page, name="chat"),
    path("favicon.ico", views.favicon, name="favicon"),
    path("c/<str:session_id>", views.page, name="chat-session"),
    path("chat/sessions", views.session_list, name="chat-sessions"),
    path("chat/sessions/<str:session_id>", views.change_session, name="chat-session-change"),
    path("chat/sessions/<str:session_id>/messages", views.messages, name="chat-messages"),
    path("chat/sessions/<str:session_id>/export", views.export_session, name="chat-export"),
    path("chat/settings", views.change_settings, name="chat-settings"),
    path("chat/link-code", views.link_code, name="chat-link-code"),
    path("chat/feedback", views.rate_source, name="chat-feedback"),
    path("sign-in", views.sign_in, name="sign-in"),
    path("sign-in/<str:token>", views.sign_in_by_link, name="sign-in-link"),
    path("decide/<str:token>", decision.decision, name="decision"),
    path("sign-out", views.sign_out, name="sign-out"),
]

ROUTES = [
    Route(r"/files", files.upload, methods=("POST",)),
    Route(r"/files/out", files.out, methods=("GET", "HEAD")),
    Route(r"/files/[^/]+", files.own, methods=("GET", "HEAD", "DELETE")),
]
SOCKETS = {"/ws/desk": AdminNotificationsConsumer.as_asgi()}
CHAT = WebChatConsumer.as_asgi()


async def websocket_application(scope: Any, receive: Any, send: Any) -> None:
    """Route to the admin's socket or the chat's; refuse a foreign ``Host``."""
    if not names_our_host(scope):
        await send({"type": "websocket.close", "code": FOREIGN})
        return
    await SOCKETS.get(scope["path"], CHAT)(scope, receive, send)
