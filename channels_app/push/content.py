"""The words of a notification, made when it is sent."""

from dataclasses import dataclass, field
from typing import Any

import orjson
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from allowlist.models import UnknownRequest
from channels_app.owner import notices
from channels_app.tool_requests import asking, deciding
from core.conversations import tool_calls
from core.lib.interface_language import spoken
from core.lib.text import one_line
from core.markdown import markdown_to_plain
from core.models import PushMessage, Run, User
from core.providers import catalogue

TITLE_CHARACTERS, BODY_CHARACTERS = 80, 240
# A push service sees the length: it is padded to a multiple of this.
PADDED_BYTES = 512
GATEWAY = "Latchkey"
HIDDEN = {
    "answer": gettext_noop("New answer"),
    "reminder": gettext_noop("Reminder"),
    "question": gettext_noop("A tool needs a yes"),
    "request": gettext_noop("New unknown request"),
}
NO_ANSWER = gettext_noop("There is no answer: {0}")
FILES_ONLY = gettext_noop("A file")


@dataclass(frozen=True, slots=True)
class Content:
    """A notification: ``url`` opens on a tap, ``actions`` are buttons (label, url); local paths."""

    title: str
    body: str
    url: str
    actions: list[tuple[str, str]] = field(default_factory=list)


def of(message: PushMessage) -> Content | None:
    """Return what a message says; None when there is nothing to tell any more."""
    user = message.subscription.user
    make = {"answer": answer, "reminder": answer, "question": question, "request": request}
    with spoken(user.language):
        return make[message.kind](message.ref, user)


def hidden(message: PushMessage) -> str:
    """Return that there is something, and of which kind, in the person's language."""
    with spoken(message.subscription.user.language):
        return gettext(HIDDEN[message.kind])


def payload(message: PushMessage, content: Content) -> bytes:
    """Return what the service worker of the page reads (``service-worker.js``)."""
    title, body = content.title, content.body
    if message.subscription.user.hide_push_text:
        title, body = GATEWAY, hidden(message)
    said: dict[str, Any] = {
        "tag": message.tag,
        "title": one_line(title, TITLE_CHARACTERS),
        "body": one_line(body, BODY_CHARACTERS),
        "url": content.url,
        "at": int(message.created_at.timestamp() * 1000),
        "actions": [{"title": label, "url": url} for label, url in content.actions],
    }
    found = orjson.dumps(said)
    return found.ljust(-(-len(found) // PADDED_BYTES) * PADDED_BYTES)


def answer(ref: str, user: User) -> Content | None:
    """Return the first words of an answer, under the name of the assistant."""
    rows = Run.objects.select_related("session")
    run = rows.filter(
        public_id=ref, user=user, session__closed_at=None, session__account__channel="web"
    ).first()
    if run is None:
        return None
    said = markdown_to_plain(run.result.get("text") or "")
    error = run.result.get("error") or ""
    if not said.strip():
        said = gettext(NO_ANSWER).format(error) if error else gettext(FILES_ONLY)
    assistant = catalogue.current().assistants.get(run.assistant_id or 0)
    title = assistant.name if assistant is not None else GATEWAY
    return Content(title, said, f"/c/{run.session.public_id}")


def question(ref: str, user: User) -> Content | None:
    """Return a question that waits for this person's yes."""
    row = tool_calls.waiting().filter(public_id=ref).first()
    if row is None or deciding.is_over(row, timezone.now()) or not deciding.may_decide(row, user):
        return None
    first, _, rest = asking.text_of(row, asking.language_of(user)).partition("\n")
    return Content(first, one_line(rest, BODY_CHARACTERS), asking.own_page_of(row))


def request(ref: str, user: User) -> Content | None:
    """Return an unknown request that is pending, for an owner. Its buttons open the page of the
    decision, which asks for the sign-in, and does not decide by being opened.
    """
    rows = UnknownRequest.objects.select_related("account").filter(
        public_id=ref, state=UnknownRequest.State.PENDING, expires_at__gt=timezone.now()
    )
    row = rows.first()
    if row is None or not user.is_owner:
        return None
    page = f"/requests/{row.public_id}"
    own = f"/admin/allowlist/unknownrequest/{row.pk}/change/" if user.is_staff else page
    actions = [
        (gettext("Allow"), f"{page}?choice=approve"),
        (gettext("Deny"), f"{page}?choice=deny"),
    ]
    return Content(notices.subject(row), notices.quote(row), own, actions)
