"""Turns of people over web chat, ``/inbound``, ``/v1`` and Telegram, whatever breaks meanwhile.

A client goes on as those of people do: the page reconnects and resumes, ``/inbound`` repeats a
request under its Idempotency-Key, ``/v1`` asks again, Telegram posts until it gets its 200.
"""

import json
import secrets
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPException

from websockets.exceptions import WebSocketException

from channels_app.rendering.translations import ENGLISH
from channels_app.worker.run_turn import SUBSTITUTE
from tests.channels_app.client import Client, events
from tests.channels_app.socket_client import Socket
from tests.channels_app.telegram.people import Bots, message
from tests.models_chaos.aimock import answer_to
from tests.servers import wait_until

BROKEN = (OSError, HTTPException, ValueError, WebSocketException)
MODELS = ("main", "spare")
NOTE = f"\n\n({SUBSTITUTE.format(MODELS[1])})"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One question and what its person ended with.

    ``first``: seconds to the first token; -1 where a channel shows the whole answer at once, and
    after a reconnection. ``restarts``: how often text of ``/v1``, which cannot be taken back, was
    followed by the notice and the answer.
    """

    channel: str
    question: str
    text: str
    first: float = -1
    restarts: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether the text is the answer of one model, once."""
        return is_whole(self.text, self.question)


@dataclass
class Person:
    """Somebody who asks one question after another in a channel."""

    channel: str
    client: Client
    bots: Bots | None = None
    chat: int = 0
    first: float = field(default=-1, init=False)

    def ask(self, question: str) -> Turn:
        """Return a turn; waits for its end."""
        self.first = -1
        text = {
            "web chat": self._over_socket,
            "inbound": self._over_inbound,
            "v1": self._over_v1,
            "telegram": self._over_telegram,
        }[self.channel](question)
        *before, last = text.split(f"\n\n{ENGLISH.restarted}\n\n")
        return Turn(
            channel=self.channel,
            question=question,
            text=without_note(last)[0].strip(),
            first=self.first,
            restarts=len(before),
        )

    def _over_socket(self, question: str) -> str:
        with closing(Socket(self.client.gateway, self.client.token)) as socket:
            wait_until(socket.comes_back, what="the web server")
            began = time.monotonic()
            run = self._said(socket, question)
            while not socket.is_final(run):
                before = len(socket.seen.get(run, ()))
                socket.receive_somehow(run)
                said = socket.seen.get(run, [])[before:]
                if self.first < 0 and any(each["type"] == "text" for each in said):
                    self.first = time.monotonic() - began
            if socket.reconnections:
                self.first = -1
            return socket.text(run)

    def _said(self, socket: Socket, question: str) -> str:
        """Send a message until it is accepted; the same id is the same message."""
        name = secrets.token_hex(8)
        while True:
            try:
                return socket.say(f"Tell me about {question}", client_id=name)[0]
            except BROKEN:
                socket.reconnections += 1
                wait_until(socket.comes_back, what="the web server")

    def _over_inbound(self, question: str) -> str:
        body = {"text": f"Tell me about {question}", "stream": True, "user_id": self.channel}
        name = secrets.token_hex(8)
        found: list[str] = []

        def is_done() -> bool:
            try:
                said = self.client.stream("POST", "/inbound", body, Idempotency_Key=name)
            except BROKEN:
                return False
            if said and said[-1].data["event"] == "done":
                assert said[-1].data["ok"], said[-1].data
                found.append(str(said[-1].data["text"]))
            return bool(found)

        wait_until(is_done, seconds=9, what=question)
        return found[0]

    def _over_v1(self, question: str) -> str:
        while True:
            began = time.monotonic()
            try:
                return self._completion(question, began)
            except BROKEN:
                wait_until(self.client.gateway.is_healthy, what="the web server")

    def _completion(self, question: str, began: float) -> str:
        body = {
            "model": "default",
            "stream": True,
            "messages": [{"role": "user", "content": f"Tell me about {question}"}],
        }
        pieces: list[str] = []
        with self.client.request(
            "POST", "/v1/chat/completions", json.dumps(body).encode(), X_Session_Id=question
        ) as response:
            if response.status >= 500:
                raise OSError(response.read())
            assert response.status == 200, response.read()
            for event in events(response):
                assert "error" not in event.data, event.data
                said = [each["delta"].get("content") for each in event.data["choices"]]
                if self.first < 0 and any(said):
                    self.first = time.monotonic() - began
                pieces += [each for each in said if each]
                if any(each["finish_reason"] for each in event.data["choices"]):
                    return "".join(pieces)
        raise OSError("the stream was cut")

    def _over_telegram(self, question: str) -> str:
        assert self.bots is not None
        bots, chat = self.bots, self.chat
        before = len(bots.texts(chat))
        began = time.monotonic()
        bots.bring(message(f"Tell me about {question}", user=chat), seconds=60)

        def is_answered() -> bool:
            said = bots.texts(chat)[before:]
            if self.first < 0 and said:
                self.first = time.monotonic() - began
            return any(is_whole(without_note(each)[0], question) for each in said)

        wait_until(is_answered, seconds=9, what=lambda: f"{question}: {bots.texts(chat)[before:]}")
        return next(
            each for each in bots.texts(chat)[before:] if is_whole(without_note(each)[0], question)
        )


def is_whole(text: str, question: str) -> bool:
    """Return whether a text is the answer of one model, once."""
    return text in [answer_to(question, model=each) for each in MODELS]


def without_note(text: str) -> tuple[str, bool]:
    """Return a message of Telegram without the line that names a substitute, and whether it had
    one."""
    bare = text.removesuffix(NOTE)
    return bare, bare != text


def ask_all(people: Iterable[Person], *, each: int, name: str = "q") -> list[Turn]:
    """Return the turns of people who each ask so many questions, all people at once."""
    crowd = list(people)

    def asked(place: int) -> list[Turn]:
        first = place * each
        return [crowd[place].ask(f"{name}{number}") for number in range(first, first + each)]

    with ThreadPoolExecutor(len(crowd)) as pool:
        return [turn for turns in pool.map(asked, range(len(crowd))) for turn in turns]
