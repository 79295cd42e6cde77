"""The pages of the web chat, their JSON calls, and signing in and out."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.http import content_disposition_header, url_has_allowed_host_and_scheme
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import (
    require_GET,
    require_http_methods,
    require_POST,
    require_safe,
)

from allowlist import link_codes, own_actions, revocation
from allowlist import sign_in as links
from channels_app.asgi import http, throttling
from channels_app.asgi.http import RefusedError
from channels_app.intake import source_feedback
from channels_app.owner import setup_steps
from channels_app.webchat import choices, export, transcript
from channels_app.webchat.operations import NO_CHAT
from core.conversations import inbox, sessions
from core.database.transactions import atomic_write
from core.lib import interface_language
from core.lib.text import is_number, one_line
from core.models import User

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

P = ParamSpec("P")
Json = dict[str, Any]

SCRIPTS = Path(__file__).parent.parent / "static" / "latchkey"
# The entry itself, and the scripts of other pages.
NOT_IMPORTED = {"chat.js", "dashboard.js", "first-message.js", "first-run.js", "fold.js"}
NOT_IMPORTED |= {"once.js", "reminders.js", "theme-early.js", "service-worker.js"}
SEARCH_CHARACTERS = 100
SHOWN_CHATS = 200
# A lockout ends after an hour. Each attempted user name has a row, and clients choose the names.
ATTEMPTS_KEPT = timedelta(days=1)
BACKEND = "django.contrib.auth.backends.ModelBackend"
WRONG = gettext_lazy("User name or password is wrong.")
USED_LINK = gettext_lazy(
    "This link has already been used or has expired. Ask the owner for a new one."
)
LOCKED = gettext_lazy("Too many wrong passwords. Try again in an hour.")


class BadRequestError(RefusedError):
    def __init__(self, message: str) -> None:
        """Take the reason."""
        super().__init__(400, message)


@never_cache
@require_safe
@login_required
def page(request: HttpRequest, session_id: str = "") -> HttpResponseBase:
    """Show the web chat; without a session, redirect to sign-in and back."""
    user = person(request)
    session = inbox.own_session(user=user, session_id=session_id)
    answering = choices.of_session(session) if session else choices.of_new_chat(user)
    context = {
        "session_id": session_id,
        "person": user.id,
        "name": str(user),
        "first_name": str(user).split()[0] if str(user).strip() else "",
        "initial": (str(user).strip() or "?")[0].upper(),
        "is_staff": user.is_staff,
        "may_link": settings.LINK_CODES == "everyone"
        or (settings.LINK_CODES == "owners" and user.is_owner),
        "show_progress": user.show_progress,
        "embedded_model": answering["is_embedded"],
        "may_meet_embedded_model": choices.may_meet_embedded(),
        "wants_time_zone": not user.time_zone,
        "hide_push_text": user.hide_push_text,
        "may_set_up": setup_steps.is_for(user),
        "max_characters": settings.MAX_TEXT_CHARACTERS,
        "max_frame_bytes": settings.MAX_FRAME_BYTES,
        "gateway_url": settings.GATEWAY_URL,
        "feedback": True,
        "modules": modules(),
        "language": interface_language.of_tag(user.language),
        "languages": settings.LANGUAGES,
    }
    return render(request, "webchat/chat.html", context)


@cache
def modules() -> list[str]:
    """Return all imports of chat.js, which the page preloads in parallel."""
    names = {path.name for path in SCRIPTS.glob("*.js")} - NOT_IMPORTED
    return [f"latchkey/{name}" for name in sorted(names)]


def person(request: HttpRequest) -> User:
    return cast("User", request.user)


def for_signed_in(
    view: Callable[Concatenate[HttpRequest, P], Json | HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Wrap a view of JSON or a file: 401 when signed out, and the answer for a RefusedError."""

    @wraps(view)
    def wrapped(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            return refusal(401, gettext("Sign in again."))
        try:
            found = view(request, *args, **kwargs)
        except RefusedError as error:
            return refusal(error.status, str(error))
        return found if isinstance(found, HttpResponse) else JsonResponse(found)

    return cast("Callable[Concatenate[HttpRequest, P], HttpResponse]", never_cache(wrapped))


def refusal(status: int, message: str) -> JsonResponse:
    return JsonResponse({"ok": False, "status": status, "error": message}, status=status)


@require_GET
@for_signed_in
def session_list(request: HttpRequest) -> Json:
    """Return the user's chats, latest first, and whether there are more; ``?q=`` searches them."""
    words = one_line(request.GET.get("q", ""), SEARCH_CHARACTERS)
    if words:
        hits = sessions.search(user=person(request), channel="web", words=words)
        rows = [(transcript.session_row(each, busy=busy), said) for each, busy, said in hits]
        return {"sessions": [{**row, "excerpt": said} for row, said in rows]}
    found = sessions.of(user=person(request), channel="web", limit=SHOWN_CHATS + 1)
    shown = [transcript.session_row(each, busy=busy) for each, busy in found[:SHOWN_CHATS]]
    return {"sessions": shown, "has_older": len(found) > SHOWN_CHATS}


@require_GET
@for_signed_in
def messages(request: HttpRequest, session_id: str) -> Json:
    """Return the turns of a chat; ``?before=`` pages back. An open turn has no answer."""
    session = own(request, session_id)
    given = request.GET.get("before", "")
    if given and not is_number(given):
        raise BadRequestError("before must be a number.")
    found = transcript.page(session=session, before=int(given) if given else None)
    return {"session": transcript.session_row(session, busy=False), **found}


@require_GET
@for_signed_in
def export_session(request: HttpRequest, session_id: str) -> HttpResponse:
    session = own(request, session_id)
    text = export.as_markdown(
        session=session, address=lambda file: f"{settings.GATEWAY_URL}/files/{file}"
    )
    name = export.file_name(session)
    disposition = content_disposition_header(as_attachment=True, filename=name)
    headers = {"Content-Disposition": disposition or "attachment"}
    return HttpResponse(text, content_type="text/markdown; charset=utf-8", headers=headers)


@require_POST
@for_signed_in
def change_session(request: HttpRequest, session_id: str) -> Json:
    """Handle ``{"action": "rename", "title"}`` or ``{"action": "delete"}``."""
    session = own(request, session_id)
    asked = http.parse_object(request.body)
    if asked.get("action") == "delete":
        sessions.delete(session=session)
        return {"ok": True}
    if asked.get("action") != "rename" or not isinstance(asked.get("title"), str):
        raise BadRequestError("action must be rename (with a title) or delete.")
    return {"ok": True, "title": sessions.rename(session=session, title=asked["title"])}


@require_POST
@for_signed_in
def change_settings(request: HttpRequest) -> Json:
    """Handle ``{"show_progress": true | false}`` or ``{"language": "de"}``; "": as the browser."""
    asked = http.parse_object(request.body)
    user = person(request)
    if "language" in asked:
        language = asked["language"]
        if language not in ("", *dict(settings.LANGUAGES)):
            raise BadRequestError("language must be one of the interface's, or empty.")
        change_setting(user, "language", language)
        return {"ok": True}
    wanted = asked.get("show_progress")
    if not isinstance(wanted, bool):
        raise BadRequestError("show_progress must be true or false.")
    change_setting(user, "show_progress", wanted)
    return {"ok": True}


def change_setting(user: User, name: str, wanted: str | bool) -> None:  # noqa: FBT001
    """Store a setting of a person, with its row in the audit."""
    with atomic_write():
        before = User.objects.values_list(name, flat=True).get(id=user.id)
        if before != wanted:
            User.objects.filter(id=user.id).update(**{name: wanted})
            own_actions.setting_changed(user=user, name=name, change=(before, wanted))


@require_POST
@for_signed_in
def link_code(request: HttpRequest) -> Json:
    """Create a single-use code that links another channel's sender to this user."""
    try:
        code = link_codes.make(user=person(request), via="web chat", now=timezone.now())
    except link_codes.NotAllowed as error:
        raise BadRequestError(str(error)) from error
    found = {"command": f"/link {code}", "mark": link_codes.mark(code)}
    return {"ok": True, **found, "minutes": settings.LINK_CODE_MINUTES}


@require_POST
@for_signed_in
def rate_source(request: HttpRequest) -> Json:
    """Handle ``{"run_id", "message_id"?, "source_id", "verdict": "up" | "down" | ""}``."""
    asked = {"message_id": "", **http.parse_object(request.body)}
    names = ("run_id", "message_id", "source_id", "verdict")
    given = {name: asked.get(name) for name in names}
    if not all(isinstance(value, str) for value in given.values()):
        raise BadRequestError(f"{', '.join(names)} must be strings.")
    try:
        verdict = source_feedback.record(user=person(request), **cast("dict[str, str]", given))
    except ValueError as error:
        raise BadRequestError(f"{error}.") from error
    except LookupError as error:
        raise RefusedError(404, NO_CHAT) from error
    return {"ok": True, "verdict": verdict}


def own(request: HttpRequest, session_id: str) -> Any:
    """Return the user's own chat. Raises RefusedError 404, also for another user's."""
    session = inbox.own_session(user=person(request), session_id=session_id)
    if session is None:
        raise RefusedError(404, NO_CHAT)
    return session


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Sign in with user name and password; unknown users and wrong passwords answer alike."""
    target = safe_target(request, request.POST.get("next") or request.GET.get("next") or "/")
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(target)
        return sign_in_page(request, target=target)
    name = request.POST.get("username", "")[:150]
    try:
        count_sign_in(request)
    except RefusedError as error:
        refused = sign_in_page(request, target=target, name=name, problem=str(error), status=429)
        refused.headers["Retry-After"] = error.headers["Retry-After"]
        return refused
    user = authenticate(request, username=name, password=request.POST.get("password", "")[:1000])
    if user is None:
        old = AccessAttempt.objects.filter(attempt_time__lt=timezone.now() - ATTEMPTS_KEPT)
        old.delete()
        return sign_in_page(request, target=target, name=name, problem=WRONG, status=401)
    with atomic_write():
        enter(request, user, how="password")
    return redirect(first_page(user, target))


def enter(request: HttpRequest, user: Any, *, how: str) -> None:
    """Sign ``user`` in; sockets of a previous user of this browser end. Inside a transaction."""
    before = request.user.pk
    login(request, user, backend=BACKEND)
    own_actions.signed_in(user=user, how=how, now=timezone.now())
    if before not in (None, user.pk):
        revocation.check_sessions(user_id=before)


def count_sign_in(request: HttpRequest) -> None:
    """Count a sign-in per address, before the password is hashed. Raises RefusedError 429."""
    address = throttling.network_of(str(request.META.get("REMOTE_ADDR", "")))
    throttling.sign_ins.check(subject=address, limit=settings.WRONG_KEYS_PER_MINUTE)


@require_http_methods(["GET", "HEAD"])
def favicon(request: HttpRequest) -> HttpResponseBase:
    """Redirect the default icon address of browsers (used by the admin)."""
    del request
    return redirect(static("latchkey/mark.svg"))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_by_link(request: HttpRequest, token: str) -> HttpResponseBase:
    """Handle a one-time link: GET shows the current and the new user; POST signs in.

    GET changes nothing: messengers open links for previews, and a foreign page can lead users here
    (decision 165).
    """
    now = timezone.now()
    if request.method != "POST":
        holder = links.holder(token=token, now=now)
        if holder is None:
            return sign_in_page(request, target="/", problem=USED_LINK, status=403)
        target = safe_target(request, request.GET.get("next") or settings.LOGIN_REDIRECT_URL)
        return render(request, "webchat/sign_in_link.html", {"holder": holder, "next": target})
    with atomic_write():
        user = links.consume(token=token, now=now)
        if user is not None:
            enter(request, user, how="link")
    if user is None:
        return sign_in_page(request, target="/", problem=USED_LINK, status=403)
    target = safe_target(request, request.POST.get("next") or settings.LOGIN_REDIRECT_URL)
    return redirect(first_page(user, target))


def first_page(user: Any, target: str) -> str:
    """Return where a sign-in leads: the first run instead of the chat, at the owner's first one."""
    if target == settings.LOGIN_REDIRECT_URL and setup_steps.begins_for(user):
        return reverse("first-run")
    return target


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session of this browser and notify its open sockets."""
    if request.user.is_authenticated:
        user_id = person(request).id
        logout(request)
        revocation.check_sessions(user_id=user_id)
    return redirect(settings.LOGIN_URL)


def locked_out(
    request: HttpRequest, _response: object = None, _credentials: object = None
) -> HttpResponse:
    """Answer for django-axes after too many wrong passwords."""
    target = safe_target(request, request.POST.get("next") or "/")
    page = sign_in_page(request, target=target, problem=LOCKED, status=429)
    page.headers["Retry-After"] = str(settings.AXES_COOLOFF_TIME * 3600)
    return page


def sign_in_page(
    request: HttpRequest,
    *,
    target: str,
    name: str = "",
    problem: "str | StrPromise" = "",
    status: int = 200,
) -> HttpResponse:
    context = {"next": target, "username": name, "problem": problem}
    return render(request, "webchat/sign_in.html", context, status=status)


def safe_target(request: HttpRequest, target: str) -> str:
    """Return ``target`` when it is a local address, else the chat's."""
    ours = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if ours else settings.LOGIN_REDIRECT_URL
