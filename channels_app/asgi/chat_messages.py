"""A client's own history in OpenAI's form, checked message by message.

A ``system`` or ``developer`` message of a client becomes a user message, or follows the gateway's
own rules; it never replaces them ([RO3]). Errors name the field by its path.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.conf import settings

from channels_app.asgi import http, images
from channels_app.asgi.fields import data_url_flaw
from channels_app.asgi.http import RefusedError
from core.lib.ids import is_public_id
from core.lib.text import clean, is_clean

Json = dict[str, Any]

MAX_MESSAGES = 2000
MAX_CALLS = 128
NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}", re.ASCII)
SYSTEM = ("system", "developer")
ROLES = {"system": "user", "developer": "user", "user": "user", "assistant": "assistant"}
# Pictures of an earlier answer come back as data URLs in text, which may be megabytes long.
NOT_FETCHED = "[a picture that was not fetched]"
EARLIER_PICTURE = "[a picture of an earlier message]"
DATA_PICTURE = re.compile(r"(!\[[^\]\n]{0,500}\])\(data:image/[^()\[\]\s]*\)")


@dataclass(frozen=True, slots=True)
class Document:
    """A document that its endpoint has checked: ``kind``, ``name``, and ``url`` or ``upload``."""

    medium: Json


def refused(message: str, field: str, *, status: int = 400) -> RefusedError:
    """Return the error for a field."""
    return RefusedError(status, f"{field} {message}.", field=field)


def checked(value: Any, *, keeps_system: bool = False) -> list[Json]:
    """Convert ``value`` to messages for the model. Raises RefusedError naming the invalid field."""
    if not isinstance(value, list) or not value:
        raise refused("must be a list with at least one message", "messages")
    if len(value) > MAX_MESSAGES:
        raise refused(f"holds more than {MAX_MESSAGES} messages", "messages", status=413)
    called: set[str] = set()
    found = [message(item, f"messages[{number}]", called) for number, item in enumerate(value)]
    keep_newest_pictures(found, "messages")
    if not any(item["content"] for item in found):
        raise refused("must not be empty", "messages")
    for item, given in zip(found, value, strict=True) if keeps_system else ():
        if given["role"] in SYSTEM:
            item["role"] = "system"
    return found


def message(value: Any, field: str, called: set[str]) -> Json:
    """Check one message; ``called`` are the ids of the tool calls so far."""
    if not isinstance(value, dict):
        raise refused("must be an object", field)
    role = value.get("role")
    if role == "tool":
        return tool_result(value, field, called)
    if not isinstance(role, str) or role not in ROLES:
        raise refused("must be system, developer, user, assistant or tool", f"{field}.role")
    if role == "assistant":
        return assistant(value, field, called)
    content = parts(value.get("content"), f"{field}.content", with_pictures=role == "user")
    return {"role": ROLES[role], "content": content}


def assistant(value: Json, field: str, called: set[str]) -> Json:
    """Check a message of the assistant, with its calls of the client's tools."""
    calls = value.get("tool_calls")
    content = value.get("content")
    text = parts(content, f"{field}.content", with_pictures=False) if content is not None else ""
    said: Json = {"role": "assistant", "content": DATA_PICTURE.sub(r"\1()", str(text))}
    if calls is None or calls == []:
        return said
    if not isinstance(calls, list) or len(calls) > MAX_CALLS:
        raise refused(f"must be a list of at most {MAX_CALLS} calls", f"{field}.tool_calls")
    said["tool_calls"] = [
        tool_call(call, f"{field}.tool_calls[{number}]") for number, call in enumerate(calls)
    ]
    called.update(call["id"] for call in said["tool_calls"])
    return said


def tool_call(value: Any, field: str) -> Json:
    """Check one tool call."""
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict) or value.get("type", "function") != "function":
        raise refused("must be a function call", field)
    return {
        "id": text(value.get("id"), f"{field}.id"),
        "type": "function",
        "function": {
            "name": name(function.get("name"), f"{field}.function.name"),
            "arguments": text(function.get("arguments"), f"{field}.function.arguments"),
        },
    }


def tool_result(value: Json, field: str, called: set[str]) -> Json:
    """Check the result of a client's tool."""
    call_id = text(value.get("tool_call_id"), f"{field}.tool_call_id")
    if call_id not in called:
        raise refused("answers no tool call before it", f"{field}.tool_call_id")
    content = parts(value.get("content"), f"{field}.content", with_pictures=False)
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def parse_body(data: bytes) -> Json:
    """Parse a request with a client's history. Raises RefusedError 400.

    NUL and the like are taken out of calls of the client's tools, which a model wrote, and of what
    they have printed: a refusal would meet each later request, too, which has the same in it.
    """
    return http.parse_object(data, clean=clean_calls)


def clean_calls(body: Any) -> None:
    """Clean the texts in the calls of a client's tools and in their results."""
    for item in items_of(body):
        for name in texts_of(str(item.get("type", "")), item.get("role")):
            if name in item:
                item[name] = cleaned(item[name])


def texts_of(kind: str, role: Any) -> tuple[str, ...]:
    """Return the fields in which an item of a history has the call of a tool, or its result."""
    if kind.startswith("tool-") or kind == "dynamic-tool":
        return "input", "rawInput", "output", "errorText"
    if kind.endswith("_output"):
        return ("output",)
    if kind in {"tool_use", "custom_tool_call"}:
        return ("input",)
    if kind in {"function", "function_call"}:
        return "function", "arguments"
    return ("content", "error") if role == "tool" or kind == "tool_result" else ()


def items_of(body: Any) -> Iterator[Json]:
    """Yield the messages of a client's history, in each protocol, and their parts and calls."""
    given = body if isinstance(body, dict) else {}
    histories = (given.get("messages"), given.get("input"), [given.get("message")])
    for item in chain.from_iterable(each for each in histories if isinstance(each, list)):
        if isinstance(item, dict):
            yield item
            for name in ("content", "parts", "tool_calls", "toolCalls"):
                held = item.get(name)
                if isinstance(held, list):
                    yield from (each for each in held if isinstance(each, dict))


def cleaned(value: Any) -> Any:
    """Return a JSON value with clean texts; keys stay."""
    if isinstance(value, str):
        return value if is_clean(value) else clean(value)
    if isinstance(value, list):
        return [cleaned(each) for each in value]
    return {k: cleaned(v) for k, v in value.items()} if isinstance(value, dict) else value


def parts(
    value: Any, field: str, *, with_pictures: bool, check: Callable[..., Json] | None = None
) -> str | list[Json]:
    """Check the content; return text as one string, or a list of parts when it has pictures.
    ``check``: of one part; of chat completions unless given.
    """
    if isinstance(value, str):
        return text(value, field)
    if not isinstance(value, list):
        raise refused("must be a string or a list of parts", field)
    found = [
        (check or part)(each, f"{field}[{number}]", with_pictures=with_pictures)
        for number, each in enumerate(value)
    ]
    if all(each["type"] == "text" for each in found):
        return "\n".join(each["text"] for each in found)
    return found


def part(value: Any, field: str, *, with_pictures: bool) -> Json:
    """Check one part: text, a picture, or a document."""
    if isinstance(value, Document) and with_pictures:
        return {"type": "file", "file": value.medium}
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in ("text", "refusal"):
        return {"type": "text", "text": text(value.get(kind), f"{field}.{kind}")}
    if kind == "image_url" and with_pictures:
        given = value.get("image_url")
        url = given.get("url") if isinstance(given, dict) else given
        if not isinstance(url, str):
            raise refused("must have a url", f"{field}.image_url")
        picture: Json = {"url": images.check(url, field=f"{field}.image_url.url")}
        if isinstance(given, dict) and given.get("detail") in ("auto", "low", "high"):
            picture["detail"] = given["detail"]
        return {"type": "image_url", "image_url": picture}
    if kind == "file" and with_pictures:
        return {"type": "file", "file": file(value.get("file"), f"{field}.file")}
    allowed = "text, image_url or file" if with_pictures else "text"
    raise refused(f"must be {allowed}", f"{field}.type")


def file(value: Any, field: str) -> Json:
    """Check a document: ``file_data`` (data URL) or ``file_id`` (``POST /files``), ``filename``."""
    if not isinstance(value, dict):
        raise refused("must be an object", field)
    label = file_name(value.get("filename"), f"{field}.filename")
    if is_public_id(value.get("file_id")):
        return {"kind": "file", "upload": value["file_id"], "name": label}
    if value.get("file_id") is not None and value.get("file_data") is None:
        raise refused("must be an id of POST /files", f"{field}.file_id")
    return {
        "kind": "file",
        "url": data_url(value.get("file_data"), f"{field}.file_data"),
        "name": label,
    }


def file_name(value: Any, field: str) -> str:
    """Return the name of a document; empty when none is given."""
    label = value or ""
    if not isinstance(label, str) or len(label) > 255 or not is_clean(label):
        raise refused("must be a name", field)
    return label


def data_url(value: Any, field: str) -> str:
    """Check a base64 data URL that is not empty."""
    empty = not isinstance(value, str) or value.endswith(",")
    flaw = "must be a base64 data URL" if empty else data_url_flaw(value)
    if flaw:
        raise refused(flaw, field)
    return str(value)


def take_files(messages: list[Json], *, keeps_places: bool = False) -> list[Json]:
    """Move the documents in ``messages`` into media; a placeholder for each stays. At most
    MAX_ATTACHMENTS.

    ``keeps_places``: those before the last message that is not of the system get their ``place``,
    the numbers of message and part.
    """
    found: list[Json] = []
    last = said_last(messages)
    for number, item in enumerate(messages):
        content = item["content"]
        for at, each in enumerate(content if isinstance(content, list) else []):
            if each["type"] == "file":
                is_earlier = keeps_places and item is not last
                found.append({**each["file"], **({"place": [number, at]} if is_earlier else {})})
                content[at] = {"type": "text", "text": f"[File: {each['file']['name']}]"}
    return found[-settings.MAX_ATTACHMENTS :]


def text(value: Any, field: str) -> str:
    """Check a string that every database can store."""
    if not isinstance(value, str):
        raise refused("must be a string", field)
    limit = settings.MAX_TEXT_CHARACTERS
    if len(value) > limit and len(DATA_PICTURE.sub("", value)) > limit:
        raise refused(f"is longer than {limit} characters", field, status=413)
    if not is_clean(value):
        raise refused("holds characters that are not text", field)
    return value


def name(value: Any, field: str) -> str:
    """Check the name of a function."""
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise refused("must be a name of letters, digits, _, - and .", field)
    return value


def keep_newest_pictures(messages: list[Json], field: str, *, known: int = 0) -> None:
    """Replace the oldest pictures of earlier messages by a placeholder text where there are more
    than MAX_ATTACHMENTS: those before the assistant's last message, and the first ``known`` ones.

    Raises RefusedError 413 for more pictures in what is new.
    """
    said = [number for number, each in enumerate(messages) if each["role"] == "assistant"]
    first, left = max([known, *said]), settings.MAX_ATTACHMENTS
    for number in reversed(range(len(messages))):
        for index, _ in reversed([*pictures_in(messages[number])]):
            left -= 1
            if left < 0 and number >= first:
                text = f"holds more than {settings.MAX_ATTACHMENTS} pictures"
                raise refused(text, field, status=413)
            if left < 0:
                messages[number]["content"][index] = {"type": "text", "text": EARLIER_PICTURE}


def pictures_in(item: Json) -> Iterator[tuple[int, Json]]:
    """Yield the pictures of a message, each with the number of its part."""
    content = item["content"]
    for index, each in enumerate([] if isinstance(content, str) else content):
        if "image_url" in each:
            yield index, each["image_url"]


async def fetch_pictures(messages: list[Json], *, get: images.Get | None = None) -> None:
    """Replace the addresses of pictures by their content. Raises RefusedError 400 or 413.

    One at a time, and in total no larger than a request body may be: a short request must not make
    the gateway download any number of large pictures.
    """
    more = {"get": get} if get else {}
    size = 0
    try:
        async with asyncio.timeout(settings.BODY_SECONDS):
            for number, item in enumerate(messages):
                for index, picture in pictures_in(item):
                    field = f"messages[{number}].content[{index}].image_url.url"
                    picture["url"] = await images.as_data_url(picture["url"], field=field, **more)
                    size += len(picture["url"])
                    if size > settings.MAX_BODY_BYTES:
                        raise refused("and others are too large in total", field, status=413)
    except TimeoutError as error:
        raise refused("was not fetched: it took too long", "messages") from error


def has_pictures_elsewhere(messages: list[Json]) -> bool:
    """Return whether messages contain addresses of pictures."""
    found = (picture for item in messages for _, picture in pictures_in(item))
    return any(not picture["url"].startswith("data:") for picture in found)


def drop_pictures_elsewhere(messages: list[Json]) -> None:
    """Replace pictures that are given by address with a placeholder text."""
    for item in messages:
        for index, picture in list(pictures_in(item)):
            if not picture["url"].startswith("data:"):
                item["content"][index] = {"type": "text", "text": NOT_FETCHED}


def last_said(messages: list[Json]) -> str:
    """Return the text of the last message that is not of the system, for the transcript."""
    content = said_last(messages)["content"]
    if isinstance(content, str):
        return content
    return "\n".join(each["text"] for each in content if each["type"] == "text")


def said_last(messages: list[Json]) -> Json:
    """Return the last message that is not of the system, else the last one."""
    return ([each for each in messages if each["role"] != "system"] or messages)[-1]
