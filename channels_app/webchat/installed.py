"""The web chat as an app: its manifest, its service worker, its shell, its share target.

All of it is the same for all people, and names none.
"""

import json
from functools import cache
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import get_language, gettext
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from channels_app.webchat import views
from core.lib import script_texts
from core.lib.interface_language import spoken

NAME = "Latchkey"
LIGHT, DARK = "#fcfbf9", "#1b1a18"  # --paper of base.css
NO_CACHE = {"Cache-Control": "no-cache"}
STYLES = (
    "base.css",
    "icons.css",
    "chat.css",
    "answer.css",
    "picker.css",
    "usage.css",
    "app.css",
    "print.css",
)
SHARED_TYPES = [
    "image/*",
    "audio/*",
    "video/*",
    "text/*",
    "application/pdf",
    "application/json",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
]


def icon(name: str, size: int, purpose: str = "any") -> dict[str, str]:
    """Return an icon as the manifest describes it."""
    return {
        "src": static(f"latchkey/icons/{name}-{size}.png"),
        "sizes": f"{size}x{size}",
        "type": "image/png",
        "purpose": purpose,
    }


@require_safe
def manifest(request: HttpRequest) -> HttpResponse:
    """Return the web app manifest (W3C Web Application Manifest)."""
    del request
    plain = icon("app", 192)
    found: dict[str, Any] = {
        "id": "/",
        "name": NAME,
        "short_name": NAME,
        "description": gettext("Your assistant."),
        "start_url": reverse("chat"),
        "scope": "/",
        "display": "standalone",
        "theme_color": LIGHT,
        "background_color": LIGHT,
        "color_scheme_dark": {"theme_color": DARK, "background_color": DARK},
        "icons": [
            plain,
            icon("app", 512),
            icon("maskable", 192, "maskable"),
            icon("maskable", 512, "maskable"),
        ],
        "shortcuts": [
            {"name": gettext("New chat"), "url": reverse("chat"), "icons": [plain]},
            {"name": gettext("Reminders"), "url": reverse("reminders"), "icons": [plain]},
        ],
        "share_target": {
            "action": reverse("share"),
            "method": "POST",
            "enctype": "multipart/form-data",
            "params": {
                "title": "title",
                "text": "text",
                "url": "url",
                "files": [{"name": "files", "accept": SHARED_TYPES}],
            },
        },
    }
    return JsonResponse(found, content_type="application/manifest+json", headers=NO_CACHE)


@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """Return the service worker with the version of what it caches."""
    del request
    language = get_language() or settings.LANGUAGE_CODE
    made = script.__wrapped__(language) if settings.DEBUG else script(language)
    return HttpResponse(
        made, content_type="text/javascript; charset=utf-8", headers={"Cache-Control": "no-store"}
    )


@cache
def script(language: str) -> str:
    """Return the service worker; its version changes with every file that it caches."""
    source = (views.SCRIPTS / "service-worker.js").read_text(encoding="utf-8")
    digest = sha256(source.encode())
    with spoken(language):
        digest.update(shell_text().encode())
    for path in sorted(views.SCRIPTS.iterdir()):
        if path.is_file():
            digest.update(path.read_bytes())
    names = [*STYLES, "theme-early.js", "chat.js", "mark.svg", "icons/app-192.png"]
    files = [static(f"latchkey/{name}") for name in names]
    files += [static(name) for name in views.modules()]
    if language != settings.LANGUAGE_CODE:
        version = script_texts.version(language)
        files.append(reverse("script-texts", args=[language, version]))
    given = {
        "version": digest.hexdigest()[:16],
        "shell": reverse("offline"),
        "files": files,
        "icon": static("latchkey/icons/app-192.png"),
        "badge": static("latchkey/icons/badge-96.png"),
    }
    return f"const GIVEN = {json.dumps(given)};\n{source}"


@require_safe
def shell(request: HttpRequest) -> HttpResponse:
    """Return the page of the chat without a person, which is shown without a connection."""
    del request
    return HttpResponse(shell_text(), headers=NO_CACHE)


def shell_text() -> str:
    """Return the shell. No request: it holds no form token."""
    context = {
        "offline": True,
        "max_characters": settings.MAX_TEXT_CHARACTERS,
        "max_frame_bytes": settings.MAX_FRAME_BYTES,
        "modules": views.modules(),
    }
    return render_to_string("webchat/chat.html", context)


@csrf_exempt
@require_POST
def share(request: HttpRequest) -> HttpResponseBase:
    """Answer where the service worker did not take what was shared: nothing of it is read, and the
    chat says so. Other programs post here, without a form token.
    """
    del request
    response = redirect(f"{reverse('chat')}?shared=lost")
    response.status_code = 303
    return response
