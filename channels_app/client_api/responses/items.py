"""The items of the Responses API as messages of chat completions, and back."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from channels_app.asgi import chat_messages, images
from channels_app.asgi.chat_messages import Json, refused
from channels_app.client_api.responses import tools
from channels_app.client_api.responses.tools import Kinds
from core.lib.text import in_ascii

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
PICTURES = "The pictures of the results above:"
LONGEST_ID = 128
MOST_ACTION_BYTES = 100_000  # of a shell call
MOST_REFERENCES = 200


@dataclass(slots=True)
class Reader:
    """Reads items into ``messages``. ``called``: ids of calls; ``known``: earlier items by id."""

    messages: list[Json] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    kinds: Kinds = field(default_factory=Kinds)
    known: Mapping[str, Json] = field(default_factory=dict)
    _pictures: list[Json] = field(default_factory=list)

    def read(self, value: Any) -> None:
        """Read the ``input`` of a request. Raises RefusedError that names the invalid field."""
        if isinstance(value, str):
            self.messages.append({"role": "user", "content": chat_messages.text(value, "input")})
            return
        if not isinstance(value, list):
            raise refused("must be a string or a list of items", "input")
        if len(value) > chat_messages.MAX_MESSAGES:
            raise refused(
                f"holds more than {chat_messages.MAX_MESSAGES} items", "input", status=413
            )
        for number, item in enumerate(value):
            self.item(item, f"input[{number}]")
        self.show_pictures()

    def item(self, item: Any, where: str) -> None:
        kind = kind_of(item)
        if kind == "item_reference":
            self.item(self.referred(item, where), where)
            return
        handler = HANDLERS.get(kind)
        if handler is None:
            raise refused(f"({in_ascii(kind[:64])}) is not supported", f"{where}.type")
        if not kind.endswith("_output"):
            self.show_pictures()
        handler(self, item, where)

    def referred(self, item: Json, where: str) -> Json:
        """Return the item that a reference means."""
        found = self.known.get(str(item.get("id")))
        if found is None:
            raise refused("refers to an item that is not there", f"{where}.id", status=404)
        return found

    def message(self, item: Json, where: str) -> None:
        role = ROLES.get(str(item.get("role")))
        if role is None:
            raise refused("must be user, assistant, system or developer", f"{where}.role")
        content = parts(item.get("content"), f"{where}.content", with_pictures=role == "user")
        if role == "assistant":
            content = chat_messages.DATA_PICTURE.sub(r"\1()", str(content))
        self.messages.append({"role": role, "content": content})

    def skip(self, item: Json, where: str) -> None:
        """Leave out reasoning: models of a chain take none from each other."""

    def function_call(self, item: Json, where: str) -> None:
        called = chat_messages.name(item.get("name"), f"{where}.name")
        function = tools.function_name(called, item.get("namespace"), self.kinds.of)
        arguments = chat_messages.text(item.get("arguments"), f"{where}.arguments")
        self.call(item, where, function, arguments)

    def custom_call(self, item: Json, where: str) -> None:
        called = chat_messages.name(item.get("name"), f"{where}.name")
        function = tools.function_name(called, item.get("namespace"), self.kinds.of)
        given = chat_messages.text(item.get("input"), f"{where}.input")
        self.call(item, where, function, orjson.dumps({"input": given}).decode())

    def shell_call(self, item: Json, where: str) -> None:
        """Add a command for the client's shell."""
        action = item.get("action")
        if not isinstance(action, dict) or len(orjson.dumps(action)) > MOST_ACTION_BYTES:
            raise refused("must be an object", f"{where}.action")
        wanted = ("command", "working_directory", "timeout_ms")
        given = {name: action[name] for name in wanted if action.get(name) is not None}
        self.call(item, where, tools.SHELL, orjson.dumps(given).decode())

    def call(self, item: Json, where: str, function: str, arguments: str) -> None:
        """Add a call to the assistant's message, where one is the last."""
        call_id = given_id(item.get("call_id"), f"{where}.call_id")
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self.messages.append({"role": "assistant", "content": ""})
        about = {"name": function, "arguments": arguments}
        made = {"id": call_id, "type": "function", "function": about}
        calls = self.messages[-1].setdefault("tool_calls", [])
        if len(calls) >= chat_messages.MAX_CALLS:
            raise refused(f"is more than the call number {chat_messages.MAX_CALLS}", where)
        calls.append(made)
        self.called.add(call_id)

    def output(self, item: Json, where: str) -> None:
        """Add the result of a call. Its pictures follow as a user's message."""
        name = "call_id" if "call_id" in item else "id"
        call_id = given_id(item.get(name), f"{where}.{name}")
        if call_id not in self.called:
            raise refused("answers no call before it", f"{where}.{name}")
        content = parts(item.get("output"), f"{where}.output", with_pictures=True)
        if not isinstance(content, str):
            self._pictures += [each for each in content if each["type"] != "text"]
            texts = [each["text"] for each in content if each["type"] == "text"]
            content = "\n".join(texts) or "(a picture)"
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    def show_pictures(self) -> None:
        """Add the pictures of results, which models take in a user's message only."""
        if self._pictures:
            content = [{"type": "text", "text": PICTURES}, *self._pictures]
            self.messages.append({"role": "user", "content": content})
            self._pictures = []


Handler = Callable[[Reader, Json, str], None]
HANDLERS: dict[str, Handler] = {
    "message": Reader.message,
    "reasoning": Reader.skip,
    "function_call": Reader.function_call,
    "function_call_output": Reader.output,
    "custom_tool_call": Reader.custom_call,
    "custom_tool_call_output": Reader.output,
    "local_shell_call": Reader.shell_call,
    "local_shell_call_output": Reader.output,
}


def kind_of(item: Any) -> str:
    """Return the type of an item, which messages and references may leave out."""
    if not isinstance(item, dict):
        return ""
    kind = item.get("type")
    if kind is None:
        return "message" if "role" in item else "item_reference"
    return str(kind)


def given_id(value: Any, where: str) -> str:
    """Check the id of a call."""
    found = chat_messages.text(value, where)
    if not 0 < len(found) <= LONGEST_ID:
        raise refused(f"must have 1 to {LONGEST_ID} characters", where)
    return found


def part(value: Any, where: str, *, with_pictures: bool) -> Json:
    """Check one part: text, a picture or a document."""
    kind = str(value.get("type")) if isinstance(value, dict) else ""
    if kind in TEXTS:
        named = TEXTS[kind]
        return {"type": "text", "text": chat_messages.text(value.get(named), f"{where}.{named}")}
    if kind == "input_image" and with_pictures:
        return picture(value, where)
    if kind == "input_file" and with_pictures:
        if value.get("file_url") is not None:
            raise refused("is not supported: use file_data or file_id", f"{where}.file_url")
        return {"type": "file", "file": chat_messages.file(value, where)}
    allowed = "input_text, input_image or input_file" if with_pictures else "text"
    raise refused(f"must be {allowed}", f"{where}.type")


parts = partial(chat_messages.parts, check=part)


def picture(value: Json, where: str) -> Json:
    """Check a picture: its address or data URL, or the id of an uploaded file."""
    if value.get("file_id") is not None:
        return {"type": "file", "file": chat_messages.file({"file_id": value["file_id"]}, where)}
    url = value.get("image_url")
    if not isinstance(url, str):
        raise refused("must be an address or a data URL", f"{where}.image_url")
    shown: Json = {"url": images.check(url, field=f"{where}.image_url")}
    if value.get("detail") in ("auto", "low", "high"):
        shown["detail"] = value["detail"]
    return {"type": "image_url", "image_url": shown}


def references(value: Any) -> list[str]:
    """Return the ids of earlier items that an ``input`` names. Raises RefusedError 413."""
    given = value if isinstance(value, list) else []
    found = [
        str(each.get("id"))
        for each in given
        if isinstance(each, dict) and kind_of(each) == "item_reference"
    ]
    if len(found) > MOST_REFERENCES:
        text = f"holds more than {MOST_REFERENCES} references to items"
        raise refused(text, "input", status=413)
    return found


def listed(messages: Iterable[Json], run_id: str, kinds: Kinds) -> list[Json]:
    """Return messages as items, for the list of a response's input."""
    found: list[Json] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            kind = {"type": "function_call_output", "status": "completed"}
            found.append({**kind, "call_id": message["tool_call_id"], "output": content})
        elif content:
            found.append(message_item(role, content))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            item = kinds.item("", call["id"], function["name"], function["arguments"])
            found.append({**item})
    return [{**each, "id": f"in_{run_id}_{number}"} for number, each in enumerate(found)]


def message_item(role: str, content: Any) -> Json:
    if role == "assistant":
        text = {"type": "output_text", "text": content, "annotations": [], "logprobs": []}
        return {"type": "message", "role": role, "status": "completed", "content": [text]}
    given: list[Json] = [{"type": "text", "text": content}]
    given = given if isinstance(content, str) else content
    shown = [
        {"type": "input_text", "text": each["text"]}
        if each["type"] == "text"
        else {
            "type": "input_image",
            "image_url": each["image_url"]["url"],
            "detail": each["image_url"].get("detail", "auto"),
        }
        for each in given
    ]
    return {"type": "message", "role": role, "status": "completed", "content": shown}
