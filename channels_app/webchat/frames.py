"""Client frames of ``/ws`` ([D3]): untrusted JSON, parsed into typed frames."""

import re
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from allowlist import unknown_requests
from allowlist.unknown_requests import CHOICES
from channels_app.asgi import strict_json
from channels_app.asgi.fields import check_data_url, text, uploaded
from channels_app.asgi.http import RefusedError
from channels_app.tool_requests import deciding
from core.lib.ids import is_public_id

CLIENT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_SEQ = 2**31 - 1
MAX_ROW_ID = 2**63 - 1
KINDS = ("image", "audio", "video")
MAX_CARDS = 100


@dataclass(frozen=True, slots=True)
class Say:
    """``message``: text for the assistant. ``plain``: the form of requirement 1.

    ``assistant_id``, ``model_id``: the person's choice for the chat that the message begins.
    """

    text: str
    client_id: str = ""
    session_id: str = ""
    user_id: str = ""
    assistant_id: int = 0
    model_id: int = 0
    media: list[dict[str, Any]] = field(default_factory=list)
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """``stop``: cancel a run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Resume:
    """``resume``: the events of a run after that number."""

    run_id: str
    after: int


@dataclass(frozen=True, slots=True)
class Decide:
    """``decide``: an owner's verdict on an unknown request."""

    request: str
    verdict: unknown_requests.Choice


@dataclass(frozen=True, slots=True)
class DecideCall:
    """``decide`` with ``tool_call``: a decision about a call of a tool.

    ``digest``: of the call that was shown.
    """

    tool_call: str
    digest: str
    choice: deciding.Choice


@dataclass(frozen=True, slots=True)
class Auth:
    """``auth``: the key of a client without a cookie, as its first frame."""

    key: str


@dataclass(frozen=True, slots=True)
class Ping:
    """``ping``."""


@dataclass(frozen=True, slots=True)
class Visible:
    """``visible``: whether the page of the socket can be seen; without one it cannot."""

    visible: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """``shown``: the requests and calls whose cards a page shows as open."""

    cards: list[str]


Frame = Say | Stop | Resume | Decide | DecideCall | Auth | Ping | Visible | Shown


def parse(data: str) -> dict[str, Any]:
    """Parse the JSON object in ``data``. Raises RefusedError 400."""
    try:
        value = strict_json.parse(data.encode(), max_depth=settings.MAX_JSON_DEPTH)
    except strict_json.BadJSONError as error:
        raise RefusedError(400, error.sentence, field=error.field or "frame") from error
    except UnicodeEncodeError as error:
        raise RefusedError(400, "Invalid JSON: not text.", field="frame") from error
    if not isinstance(value, dict):
        raise RefusedError(400, "A frame must be a JSON object.", field="frame")
    return value


def client_id_of(value: dict[str, Any]) -> str:
    """Return the client's own id of its frame, for error frames; empty when it has none."""
    given = value.get("client_id")
    return given if isinstance(given, str) and CLIENT_ID.fullmatch(given) else ""


def run_id_of(value: dict[str, Any]) -> str:
    """Return the run named in a frame; empty for none."""
    given = value.get("run_id")
    return str(given) if is_public_id(given) else ""


def read(value: dict[str, Any]) -> Frame:
    """Return the typed frame of a JSON object. Raises RefusedError 400 or 413 naming the field."""
    match value.get("type"):
        case "message":
            return say(value, plain=False)
        case None if "text" in value:
            return say(value, plain=True)
        case "stop":
            return Stop(text(value, "run_id", 64, required=True))
        case "resume":
            after = number(value, "after", MAX_SEQ, "an event number")
            return Resume(text(value, "run_id", 64, required=True), after)
        case "decide":
            return decide_call(value) if "tool_call" in value else decide(value)
        case "auth":
            return Auth(text(value, "key", 200, required=True))
        case "ping":
            return Ping()
        case "visible":
            return visible(value)
        case "shown":
            return shown(value)
    raise RefusedError(400, "type is unknown.", field="type")


def say(value: dict[str, Any], *, plain: bool) -> Say:
    """Parse a message. Raises RefusedError."""
    client_id = text(value, "client_id", 64)
    if client_id and not CLIENT_ID.fullmatch(client_id):
        raise RefusedError(
            400, "client_id may contain letters, digits, - and _ only.", field="client_id"
        )
    media = files(value)
    said = text(value, "text", settings.MAX_TEXT_CHARACTERS, required=not media)
    if not said.strip() and not media:
        raise RefusedError(400, "text must not be empty.", field="text")
    return Say(
        text=said,
        client_id=client_id,
        session_id=text(value, "session_id", 64),
        user_id=text(value, "user_id", 256),
        media=media,
        plain=plain,
        **choice(value),
    )


def choice(value: dict[str, Any]) -> dict[str, int]:
    """Parse the choice for the chat that a message begins. Raises RefusedError."""
    found = {name: row_id(value, name) for name in ("assistant_id", "model_id")}
    wanted = next((name for name, number in found.items() if number), "")
    if wanted and value.get("session_id"):
        raise RefusedError(400, f"{wanted} is for the first message of a chat.", field=wanted)
    return found


def decide(value: dict[str, Any]) -> Decide:
    """Parse a verdict. Raises RefusedError."""
    verdict = text(value, "verdict", 32, required=True)
    if verdict not in CHOICES:
        raise RefusedError(400, f"verdict is one of {', '.join(CHOICES)}.", field="verdict")
    return Decide(text(value, "request", 64, required=True), verdict)


def decide_call(value: dict[str, Any]) -> DecideCall:
    """Parse a decision about a call of a tool. Raises RefusedError."""
    choice = deciding.known_choice(text(value, "choice", 32, required=True))
    if choice is None:
        raise RefusedError(400, f"choice is one of {', '.join(deciding.CHOICES)}.", field="choice")
    name = text(value, "tool_call", 64, required=True)
    return DecideCall(name, text(value, "digest", 64, required=True), choice)


def visible(value: dict[str, Any]) -> Visible:
    """Parse whether a page can be seen. Raises RefusedError."""
    given = value.get("visible")
    if not isinstance(given, bool):
        raise RefusedError(400, "visible must be true or false.", field="visible")
    return Visible(given)


def shown(value: dict[str, Any]) -> Shown:
    """Parse the ids of open cards. Raises RefusedError."""
    given = value.get("cards")
    if not isinstance(given, list) or len(given) > MAX_CARDS or not all(map(is_public_id, given)):
        raise RefusedError(400, f"cards must be a list of at most {MAX_CARDS} ids.", field="cards")
    return Shown(given)


def number(value: dict[str, Any], name: str, most: int, kind: str) -> int:
    """Parse a number of a ``kind``; a missing one is 0. Raises RefusedError."""
    given = value.get(name, 0)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= most:
        raise RefusedError(400, f"{name} must be {kind}.", field=name)
    return given


def row_id(value: dict[str, Any], name: str) -> int:
    """Parse the id of a row; a missing one is 0. Raises RefusedError."""
    return number(value, name, MAX_ROW_ID, "an id")


def files(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Parse ``files``: data URLs, ids, or ``{"url" | "id", "name"?}``. Raises RefusedError."""
    given = value.get("files") or []
    most = settings.MAX_ATTACHMENTS
    if not isinstance(given, list) or len(given) > most:
        raise RefusedError(400, f"files must be a list of at most {most}.", field="files")
    return [attachment(item if isinstance(item, dict) else {"url": item}) for item in given]


def attachment(item: dict[str, Any]) -> dict[str, Any]:
    """Parse one attached file. Raises RefusedError."""
    url = item.get("id") or item.get("url")
    if not isinstance(url, str):
        raise RefusedError(400, "files must hold data URLs.", field="files")
    public = uploaded(url)
    if not public:
        check_data_url(url, "files")
    name = text(item, "name", 255)
    named = {"name": name} if name else {}
    if public:
        return {"kind": "file", "upload": public, **named}
    kind = url.removeprefix("data:").partition("/")[0]
    return {"kind": kind if kind in KINDS else "file", "url": url, **named}
