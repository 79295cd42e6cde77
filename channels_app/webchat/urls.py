"""Routes of the web chat: pages and JSON for Django; files and WebSockets for Channels."""

from typing import Any

from channels.routing import URLRouter
from django.urls import URLPattern, path, re_path

from channels_app.asgi import http
from channels_app.asgi.hosts import our_host
from channels_app.webchat import (
    files,
    installed,
    mcp_sign_in,
    picker,
    push,
    reminders,
    request_page,
    script_texts,
    tool_call_page,
    views,
)
from channels_app.webchat.admin_notifications import AdminNotificationsConsumer
from channels_app.webchat.consumers import WebChatConsumer

urlpatterns: list[URLPattern] = [
    path("", views.page, name="chat"),
    path("favicon.ico", views.favicon, name="favicon"),
    path("c/<str:session_id>", views.page, name="chat-session"),
    path("chat/sessions", views.session_list, name="chat-sessions"),
    path("chat/sessions/<str:session_id>", views.change_session, name="chat-session-change"),
    path("chat/sessions/<str:session_id>/messages", views.messages, name="chat-messages"),
    path("chat/sessions/<str:session_id>/export", views.export_session, name="chat-export"),
    path("chat/sessions/<str:session_id>/assistant", picker.choose_assistant, name="chat-choice"),
    path("chat/assistants", picker.assistant_list, name="chat-assistants"),
    path(
        "chat/assistants/<int:assistant_id>/picture",
        picker.assistant_picture,
        name="chat-assistant-picture",
    ),
    path("chat/usage", picker.usage, name="chat-usage"),
    path("chat/settings", views.change_settings, name="chat-settings"),
    path("chat/push/key", push.key, name="push-key"),
    path("chat/push/subscriptions", push.subscribe, name="push-subscribe"),
    path("chat/push/browsers", push.browsers, name="push-browsers"),
    path("chat/push/remove", push.remove, name="push-remove"),
    path("chat/push/settings", push.change_settings, name="push-settings"),
    path("manifest.webmanifest", installed.manifest, name="manifest"),
    path("sw.js", installed.service_worker, name="service-worker"),
    path("offline", installed.shell, name="offline"),
    path("share", installed.share, name="share"),
    path("chat/link-code", views.link_code, name="chat-link-code"),
    path("chat/time-zone", reminders.browser_zone, name="chat-time-zone"),
    path("chat/reminders/<str:run_id>", reminders.press, name="chat-reminder"),
    path("reminders", reminders.page, name="reminders"),
    path("reminders/new", reminders.new, name="reminder-new"),
    path("reminders/time-zone", reminders.change_zone, name="reminder-zone"),
    path("reminders/<str:name>", reminders.edit, name="reminder"),
    path("reminders/<str:name>/<str:action>", reminders.act, name="reminder-action"),
    path("chat/feedback", views.rate_source, name="chat-feedback"),
    path("sign-in", views.sign_in, name="sign-in"),
    path("sign-in/<str:token>", views.sign_in_by_link, name="sign-in-link"),
    path("decide/<str:token>", request_page.decision, name="decision"),
    path("requests/<str:public_id>", request_page.unknown_request, name="unknown-request"),
    path("tool-calls/<str:public_id>", tool_call_page.tool_call, name="tool-call"),
    path("texts/<str:language>/<str:version>.js", script_texts.catalogue, name="script-texts"),
    path("mcp/oauth/sign-in/<str:value>", mcp_sign_in.page, name="mcp-sign-in"),
    path("mcp/oauth/callback/<slug:server>", mcp_sign_in.callback, name="mcp-callback"),
    path("mcp/oauth/client/<slug:server>.json", mcp_sign_in.client_document, name="mcp-client"),
    path("sign-out", views.sign_out, name="sign-out"),
]

ROUTES = [
    path("files", files.Upload.as_asgi()),
    path("files/out", files.Out.as_asgi()),
    path("files/<str:file_id>", files.Own.as_asgi()),
]
no_socket: Any = http.no_socket  # Django's types know views alone
SOCKETS = [
    path("ws/desk", AdminNotificationsConsumer.as_asgi()),
    re_path(r"^v1/", no_socket),
    re_path(r"", WebChatConsumer.as_asgi()),  # under any other address
]
websocket_application = our_host(URLRouter(SOCKETS))
