"""A model server as an owner would set one: OpenAI's protocol over HTTP, with its log to read."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.core.plugins.hosts import good

Json = dict[str, Any]
PAUSE = 0.15
HEARD = "When is the meeting on Monday?"


@dataclass
class Rule:
    """The answer when ``match`` is found in the last message of the person.

    ``slow``: word by word. ``status``: an error instead. ``tool``: a call, with ``arguments``.
    ``end``: more fields of the last choice; ``usage``: of the answer.
    """

    match: str
    text: str = ""
    slow: bool = False
    status: int = 200
    tool: str = ""
    arguments: Json = field(default_factory=dict)
    after_tool: bool = False
    end: Json = field(default_factory=dict)
    usage: Json = field(default_factory=dict)


@dataclass
class Model:
    """``asked`` is what came, oldest first, ``heard`` the recordings; ``rules`` are looked through
    in order. A question with a schema is answered within it. ``names``: the models that it has;
    empty for any. ``key``: the key that it wants, if one."""

    url: str = ""
    asked: list[Json] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    key: str = ""

    def rule(self, body: Json) -> Rule:
        """Return the rule for a request; without one the answer repeats the person's words."""
        messages = body["messages"]
        said = last_said(messages)
        if form := body.get("response_format"):
            return Rule("", text=within(said, form["json_schema"]["schema"]))
        is_after = messages[-1]["role"] == "tool"
        for rule in self.rules:
            if rule.after_tool == is_after and re.search(rule.match, said):
                return rule
        return Rule("", text="Done." if is_after else f"You said: {said}")

    def prompts(self) -> list[str]:
        """Return the messages of each request, as text."""
        return [json.dumps(each["messages"], ensure_ascii=False) for each in list(self.asked)]


def within(prompt: str, schema: Json) -> str:
    """Return an answer that keeps to a schema of the slides; a plan has the requested title."""
    answer = json.loads(good(prompt, schema))
    if sections := schema["properties"].get("sections"):
        answer["title"] = prompt.partition("about: ")[2].splitlines()[0]
        answer["sections"] = answer["sections"][: sections["maxItems"]]
        for each in answer["sections"]:
            most = sections["items"]["properties"]["slides"]["maxItems"]
            each["slides"] = each["slides"][:most]
    return json.dumps(answer)


def last_said(messages: list[Json]) -> str:
    """Return the last words of the person."""
    content = next(each["content"] for each in reversed(messages) if each["role"] == "user")
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def chunks(rule: Rule) -> Iterator[Json]:
    """Yield the deltas of an answer."""
    if rule.tool:
        call = {"name": rule.tool, "arguments": json.dumps(rule.arguments)}
        yield {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": call}],
        }
        return
    yield {"role": "assistant", "content": ""}
    for word in re.findall(r"\S+\s*", rule.text) if rule.slow else [rule.text]:
        yield {"content": word}


class Server(ThreadingHTTPServer):
    """The server of one model."""

    daemon_threads = True
    model: Model


class Handler(BaseHTTPRequestHandler):
    """``GET /v1/models``, ``POST /v1/chat/completions`` and ``POST /v1/audio/transcriptions``."""

    server: Server

    def do_GET(self) -> None:
        """List the models, also as an Ollama does (``/api/tags``)."""
        if self.is_refused():
            return
        rows = [{"id": name, "object": "model"} for name in self.server.model.names]
        # Ollama's own list has another name.
        self.answer(200, {"object": "list", "data": rows, "models": rows})

    def is_refused(self) -> bool:
        """Answer 401 to a request without the key, if the server wants one."""
        key = self.server.model.key
        if not key or self.headers.get("Authorization") == f"Bearer {key}":
            return False
        self.answer(401, {"error": {"message": "Incorrect API key provided."}})
        return True

    def do_POST(self) -> None:
        """Note the request and play its rule as a stream; each recording says the same."""
        data = self.body()
        if self.is_refused():
            return
        if self.path == "/v1/audio/transcriptions":
            self.server.model.heard.append(data)
            self.answer(200, {"text": HEARD})
            return
        if self.path != "/v1/chat/completions":
            self.answer(404, {"error": {"message": "Not found."}})
            return
        body = json.loads(data)
        self.server.model.asked.append(body)
        names = self.server.model.names
        if names and body["model"] not in names:
            message = f"The model `{body['model']}` does not exist."
            self.answer(404, {"error": {"message": message, "code": "model_not_found"}})
            return
        rule = self.server.model.rule(body)
        if rule.status != 200:
            self.answer(rule.status, {"error": {"message": rule.text}})
            return
        with suppress(OSError):
            self.play(rule)

    def body(self) -> bytes:
        """Return the request's bytes, in one piece or in chunks."""
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def play(self, rule: Rule) -> None:
        """Send the answer of a rule as a stream."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta in chunks(rule):
            self.event({"index": 0, "delta": delta, "finish_reason": None})
            time.sleep(PAUSE if rule.slow else 0)
        reason = "tool_calls" if rule.tool else "stop"
        self.event({"index": 0, "delta": {}, "finish_reason": reason, **rule.end}, rule.usage)
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, choice: Json, usage: Json | None = None) -> None:
        """Send one frame."""
        data: Json = {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
        data |= {"usage": usage} if usage else {}
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")
        self.wfile.flush()

    def answer(self, status: int, body: Json) -> None:
        """Send a whole answer."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@contextmanager
def running() -> Iterator[Model]:
    """Yield the server, until the end of the block."""
    server = Server(("127.0.0.1", 0), Handler)
    model = server.model = Model(url=f"http://127.0.0.1:{server.server_address[1]}/v1")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield model
    server.shutdown()
    server.server_close()
