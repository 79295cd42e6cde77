"""People who ask a gateway over HTTP and on Telegram, steadily, and note what was promised."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tests.channels_app.client import Client
from tests.channels_app.telegram.people import Bots, message
from tests.servers import wait_until

Act = Callable[[str, random.Random], None]
WORDS = " ".join(f"part{number:02d}" for number in range(16))
SCRIPT = [
    {"match": "^stream", "steps": [{"text": f"{WORDS} to {{input}}", "tokens_per_second": 16}]},
    {"match": "", "steps": [{"text": "ok, {input}"}]},
]


def wanted(text: str) -> str:
    """Return the answer to a question."""
    return f"{WORDS} to {text}" if text.startswith("stream") else f"ok, {text}"


class Upload(NamedTuple):
    """A file of a person: their key, its address, its content."""

    token: str
    address: str
    content: bytes


@dataclass
class Traffic:
    """``acknowledged``: the questions whose senders have a 2xx; ``answered``: those whose senders
    have the answer; ``files``: those that were uploaded with a 201.
    """

    bots: Bots
    clients: list[Client]
    chats: list[int]
    seed: str
    acknowledged: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    files: list[Upload] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Let all people ask until the end of the block."""
        work: list[tuple[str, Act]] = [
            *(
                (f"http {place}", partial(self.ask, each))
                for place, each in enumerate(self.clients)
            ),
            *((f"chat {chat}", partial(self.write, chat)) for chat in self.chats),
        ]
        threads = [threading.Thread(target=self.repeat, args=each) for each in work]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        assert not self.failures, self.failures

    def repeat(self, name: str, act: Act) -> None:
        """Ask one question after the other."""
        dice, number = random.Random(f"{self.seed} {name}"), 0
        try:
            while not self.over.is_set():
                number += 1
                kind = dice.choice(("stream", "short", "short"))
                act(f"{kind} {self.seed} {name} {number}", dice)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.failures.append(error)

    def ask(self, client: Client, text: str, dice: random.Random) -> None:
        """Ask over HTTP: with a file first, waiting for the answer or for the promise only."""
        if dice.random() < 0.4:
            sent = client.call("POST", "/files?name=notes.txt", text.encode())
            assert sent.status == 201, sent.raw
            self.files.append(Upload(client.token, f"/files/{sent.body['id']}", text.encode()))
        if dice.random() < 0.3:
            run = client.start(text)
            self.acknowledged.append(text)
            wait_until(lambda: client.result(run).status == 200)
        else:
            said = client.say(text)
            assert said.body["text"] == wanted(text), said.raw
            self.acknowledged.append(text)
        self.answered.append(text)

    def write(self, chat: int, text: str, _: object = None) -> None:
        """Write on Telegram, and wait until the answer is in the chat."""
        self.bots.bring(message(text, user=chat), seconds=60)
        self.acknowledged.append(text)
        wait_until(lambda: wanted(text) in self.bots.texts(chat))
        self.answered.append(text)

    def shown(self) -> Counter[tuple[int, str]]:
        """Return how often each text is in each chat."""
        return Counter((chat, text) for chat in self.chats for text in self.bots.texts(chat))
