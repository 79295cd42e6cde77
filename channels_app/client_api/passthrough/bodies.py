"""The bodies of requests that are passed through: checked as far as the gateway has to know them.

The rest of the fields is the provider's: it checks them.
"""

import json
from dataclasses import dataclass
from io import BytesIO
from math import ceil
from typing import Any

import aiohttp
from django.core.exceptions import SuspiciousOperation
from django.core.files.uploadhandler import MemoryFileUploadHandler
from django.http.multipartparser import MultiPartParser, MultiPartParserError

from channels_app.asgi import http
from channels_app.asgi.chat_messages import refused, text
from channels_app.asgi.http import RefusedError

BYTES_A_TOKEN = 1000  # of a recording, and so of what is heard in it: on the safe side
SPOKEN_TOKENS = 1.5  # of a byte that is said: a minute of speech is some 900 bytes, 1,250 tokens
MOST_INPUTS = 2048


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: the model that it names, and the texts by which it is measured.

    ``fields``: the rest of a JSON object, or the fields of a form; ``files``: those of a form.
    ``output``: the tokens of the answer, estimated, where it is speech or what is heard.
    """

    model: Any
    texts: list[str]
    fields: dict[str, Any]
    files: list[tuple[str, str, str, bytes]] | None = None
    output: int = 0

    def payload(self, model: str) -> tuple[Any, dict[str, str]]:
        """Return the body for the provider, with its name of the model, and the headers."""
        if self.files is None:
            data = BytesIO(json.dumps({**self.fields, "model": model}).encode())
            return data, {"Content-Type": "application/json"}
        form = aiohttp.FormData()
        form.add_field("model", model)
        for name, values in self.fields.items():
            for value in values:
                form.add_field(name, value)
        for name, label, kind, content in self.files:
            form.add_field(name, content, filename=label, content_type=kind)
        return form, {}


def embeddings(body: bytes) -> Asked:
    """Read a request for embeddings. Raises RefusedError."""
    data = http.parse_object(body)
    given = data.pop("input", None)
    several = given if isinstance(given, list) else [given]
    if not several or len(several) > MOST_INPUTS:
        raise refused(f"must be a text or a list of at most {MOST_INPUTS}", "input")
    texts = [text(each, "input") if isinstance(each, str) else tokens(each) for each in several]
    return Asked(data.pop("model", None), texts, {**data, "input": given})


def tokens(value: Any) -> str:
    """Return a text of about as many tokens as an input that is given as tokens has."""
    numbers = value if isinstance(value, list) else [value]
    if not all(type(each) is int for each in numbers):
        raise refused("must hold texts or tokens", "input")
    return "abc" * len(numbers)


def speech(body: bytes) -> Asked:
    """Read a request for speech. Raises RefusedError."""
    data = http.parse_object(body)
    said = text(data.get("input"), "input")
    if not said:
        raise refused("must not be empty", "input")
    tokens_said = ceil(len(said.encode()) * SPOKEN_TOKENS)
    return Asked(data.pop("model", None), [said], data, output=tokens_said)


class InMemory(MemoryFileUploadHandler):
    """Keeps every file in memory: the body is bounded already."""

    def handle_raw_input(self, *_: Any, **__: Any) -> None:
        """Take every file."""
        self.activated = True


def recording(body: bytes, content_type: str) -> Asked:
    """Read a form with a recording. Raises RefusedError 400."""
    if not content_type.startswith("multipart/form-data"):
        text = "The body must be a form: send Content-Type: multipart/form-data."
        raise RefusedError(415, text, field="Content-Type")
    head = {"CONTENT_TYPE": content_type, "CONTENT_LENGTH": str(len(body))}
    try:
        fields, files = MultiPartParser(head, BytesIO(body), [InMemory()], "utf-8").parse()
    except (MultiPartParserError, SuspiciousOperation) as error:
        raise RefusedError(400, "The form cannot be read.", field="body") from error
    given: dict[str, Any] = {name: fields.getlist(name) for name in fields}
    model = given.pop("model", [None])[-1]
    kept = [
        (name, each.name or "file", each.content_type or "application/octet-stream", each.read())
        for name in files
        for each in files.getlist(name)
    ]
    if [name for name, *_ in kept] != ["file"]:
        raise refused("must be one recording", "file")
    heard = len(kept[0][3]) // BYTES_A_TOKEN + 1
    return Asked(model, ["abc" * heard], given, kept, output=heard)
