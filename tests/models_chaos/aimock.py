"""aimock as a model server that breaks (``provider.mjs``): started, told how, read, stopped."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from core.lib import child
from tests.npm import Packages
from tests.servers import Process

PROGRAM = Path(__file__).parent / "provider.mjs"
WORDS = 24
# The faults that are used here, each with the code of KINDS that the gateway gives it.
FAULTS = {
    "429": "rate_limited",
    "500": "server",
    "cut": "cut",
    "garbage": "bad_stream",
    "malformed": "no_model_server",
    "pause": "silence",
    "silence": "timeout",
}
Json = dict[str, Any]


def answer_to(question: str, *, model: str, words: int = WORDS) -> str:
    """Return what a model answers to a question such as ``q17``."""
    return " ".join(f"{model}{number}{question}" for number in range(words))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as the provider saw it.

    ``usage``: the tokens that it told, None when it could not. ``done``: the caller has got the
    whole answer. ``begun``: something of an answer was sent. ``open``: the calls at once, with it.
    """

    number: int
    model: str
    question: str
    fault: str
    status: int
    begun: bool
    done: bool
    usage: Mapping[str, int] | None
    key: str
    open: int
    at: float


@dataclass
class Aimock:
    """One running provider. ``port`` stays the same when it is started again."""

    process: Process
    port: int = 0
    before: int = 0

    @property
    def url(self) -> str:
        """Return the address for a provider's row."""
        return f"http://127.0.0.1:{self.port}/v1"

    def fail(self, **faults: Sequence[str]) -> None:
        """Set how requests of each model fail, in turn; "" is an answer. Others are answered.

        :meth:`asked` begins anew.
        """
        self._call("/plan", faults)
        self.before = len(self._call("/ledger"))

    def asked(self, *, model: str = "") -> list[Asked]:
        """Return the requests since the last :meth:`fail`, in order; checks that aimock's journal
        has the same."""
        found = self._call("/ledger")[self.before :]
        found = [each for each in found if model in {"", each["model"]}]
        seen = {each["headers"]["x-request-id"]: each for each in self.journal()}
        for each in found:
            mine = seen.get(f"r{each['number']}")
            if mine is not None and mine["body"]:
                assert mine["body"]["model"] == each["model"]
        names = [each.name for each in fields(Asked) if each.name != "at"]
        return [
            Asked(**{name: each[name] for name in names}, at=each["at"] / 1000) for each in found
        ]

    def journal(self) -> list[Json]:
        """Return aimock's own journal: the requests that it has answered."""
        return list(self._call("/__aimock/journal"))

    def _call(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"http://127.0.0.1:{self.port}{path}", data), timeout=60) as answer:
            return json.loads(answer.read())

    def start(self) -> None:
        """Start it, at the port of last time."""
        self.process.log.unlink(missing_ok=True)
        self.process.env = {**(self.process.env or {}), "PORT": str(self.port)}
        self.process.start()
        self.process.wait_ready(lambda: self.process.tail().endswith("\n"))
        self.port = int(self.process.tail().splitlines()[0])

    def stop(self) -> None:
        """Stop it."""
        self.process.stop()


@contextmanager
def running(packages: Packages, folder: Path, **environment: str) -> Iterator[Aimock]:
    """Yield the provider on a free port. ``environment``: WORDS of an answer, CHUNK_MS between two
    pieces of it."""
    program = shutil.copy(PROGRAM, packages.folder / PROGRAM.name)
    found = Aimock(
        Process(
            command=child.command(packages.node, str(program)),
            log=folder / "aimock.log",
            env={**os.environ, **environment},
            cwd=packages.folder,
        )
    )
    found.start()
    yield found
    found.stop()
