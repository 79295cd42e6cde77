"""The keys of providers and bots are nowhere but in their encrypted columns, whatever happens.

The provider repeats the key that it got: in bodies, headers and status lines of errors, on a page,
and in its streams.
"""

import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.channels_app.client import Client, query
from tests.channels_app.socket_client import Socket
from tests.models_chaos.conftest import KEY, Arena, MakeArena
from tests.models_chaos.owner import PROVIDERS, Owner, signed_in
from tests.run import of_this_turn
from tests.servers import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
# Without a form that could be known, as those of Mistral are: only their owner can recognise them.
OF_THE_ADMIN = "b7Qm2VxCanaryOfTheAdmin94kR"
OF_THE_ENVIRONMENT = "n5TzCanaryOfTheEnvironment81w"
TEXT = "Tell me about q"
# ``make test`` has a half of them, on another day the other one.
FAULTS = of_this_turn(
    ["echo", "echo-head", "echo-page", "echo-stream", "401", "garbage", "cut", "malformed"], parts=2
)
FAULTS += ["quota", ""]
# The person who asks is the owner, and may read the traces and export the conversations.
OWNER = """
from core.models import User
User.objects.filter(username="user-2").update(is_owner=True, is_staff=True, is_superuser=True)
"""
PAGES = ("/admin/", "/", "/chat/assistants", "/metrics", "/readyz", "/healthz", "/api/sessions")


def test_no_key_is_in_a_log_page_broker_error_export_trace_or_column(arena: MakeArena) -> None:
    it = arena(GATEWAY_MODEL_KEY=OF_THE_ENVIRONMENT, LOG_LEVEL="DEBUG", METRICS_TOKEN="")
    bot = it.bots.tokens["main"]
    keys = [KEY, OF_THE_ADMIN, OF_THE_ENVIRONMENT, bot]
    seen: dict[str, str] = {}
    it.gateway.manage("shell", "-v0", "--no-imports", "-c", OWNER)
    with signed_in(it.gateway) as owner, listening(it, seen):
        page = owner.add_provider(it.provider.url, "third", key=OF_THE_ADMIN, name="by the admin")
        owner.set_chain("main", "third", "environment")
        seen |= everything_said(it, owner, page)
        seen |= owner.crawl(*PAGES, *traces(it), *exports(it))
    seen |= {name: it.gateway.log(name) for name in (*it.gateway.roles, "broker")}
    seen |= (
        dict(stored(it)) | dict(held_by_the_broker(it)) | dict(files(it.gateway.folder / "home"))
    )
    seen["doctor"] = diagnosis(it)
    used = {each.key for each in it.provider.asked()}
    assert used == {KEY, OF_THE_ADMIN, OF_THE_ENVIRONMENT}
    print(f"{len(seen)} places, {sum(map(len, seen.values())) // 1024} KiB")
    check_it_would_be_found(seen)
    found = [(where, key) for where, text in seen.items() for key in keys if key in text]
    assert found == [], "\n".join(around(seen[where], key) for where, key in found)


def everything_said(it: Arena, owner: Owner, page: str) -> dict[str, str]:
    """Have every model fail in each way, over all channels and at the provider's own pages; return
    what was answered."""
    seen: dict[str, str] = {}
    for fault in FAULTS:
        it.provider.fail(main=[fault], third=[fault], environment=[fault])
        it.provider.before = 0
        tested = page.replace("change", "test")
        asked: dict[str, Callable[[], str]] = {
            "web chat": partial(frames, it.people[0].client),
            "telegram": partial(chat, it),
            "test": partial(after, owner, tested, model="third"),
            **bodies(it.people[0].client),
        }
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = {name: pool.submit(each) for name, each in asked.items()}
            seen |= {f"{name} {fault}": each.result() for name, each in answers.items()}
    seen["list"] = after(owner, page.replace("change", "ask-models"))
    seen["refused"] = refused_form(owner, page)
    return seen


def frames(person: Client) -> str:
    """Return all that the web chat gets."""
    with Socket(person.gateway, person.token) as socket:
        run, _ = socket.say(f"{TEXT}0", client_id=secrets.token_hex(8))
        socket.until_final(run)
        return str(socket.seen)


def chat(it: Arena) -> str:
    """Return what a bot has written, when its next answer is there."""
    person = next(each for each in it.people if each.channel == "telegram")
    before = len(it.bots.texts(person.chat))
    it.bots.say(f"{TEXT}1", user=person.chat)
    wait_until(lambda: len(it.bots.texts(person.chat)) > before, what="a text in the chat")
    return str(it.bots.texts(person.chat))


def after(owner: Owner, path: str, **fields: str) -> str:
    """Return the page that follows a button, with its messages."""
    return owner.get(owner.post(path, fields))


def refused_form(owner: Owner, page: str) -> str:
    """Return the form that comes back with errors after a key was typed."""
    token = owner.browser.cookies.get("csrftoken") or ""
    fields = {"csrfmiddlewaretoken": token, "name": "", "key": OF_THE_ADMIN, "base_url": "ftp://x"}
    answer = owner.browser.post(page, data=fields, headers={"Referer": owner.gateway.base_url})
    assert answer.status_code == 200
    return answer.text


def bodies(person: Client) -> dict[str, Callable[[], str]]:
    """Return requests at the HTTP interfaces, which return headers and bodies."""
    asked = {"model": "default", "messages": [{"role": "user", "content": f"{TEXT}2"}]}
    parts = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": f"{TEXT}3"}]}

    said = [{"id": "m1", "role": "user", "content": f"{TEXT}7"}]
    ag_ui = {"threadId": "t", "runId": secrets.token_hex(8), "messages": said}

    def shown(path: str, body: object) -> str:
        answer = person.post(path, body)
        return f"{answer.status} {answer.headers} {answer.raw.decode()}"

    requests: dict[str, tuple[str, object]] = {
        "v1": ("/v1/chat/completions", asked),
        "v1 stream": ("/v1/chat/completions", {**asked, "stream": True}),
        "inbound": ("/inbound", {"text": f"{TEXT}4"}),
        "ui": ("/ui/chat", {"id": "c", "messages": [parts]}),
        "responses": ("/v1/responses", {"model": "default", "input": f"{TEXT}5"}),
        "responses stream": (
            "/v1/responses",
            {"model": "default", "input": f"{TEXT}6", "stream": True},
        ),
        "messages": ("/v1/messages", {**asked, "max_tokens": 100}),
        "messages stream": ("/v1/messages", {**asked, "max_tokens": 100, "stream": True}),
        "ag-ui": ("/ag-ui", ag_ui),
    }
    return {name: partial(shown, *each) for name, each in requests.items()}


class listening:  # noqa: N801 - a context manager
    """Keeps every command that the broker gets, in ``seen["monitor"]``."""

    def __init__(self, arena: Arena, seen: dict[str, str]) -> None:
        self.seen, self.lines = seen, list[str]()
        self.client = redis.Redis.from_url(arena.gateway.broker.url)
        self.thread = threading.Thread(target=self.listen, daemon=True)

    def listen(self) -> None:
        """Read until the connection is closed."""
        with self.client.monitor() as monitor:  # type: ignore[no-untyped-call]  # redis-py's
            for command in monitor.listen():
                self.lines.append(str(command["command"]))
                if "end of the monitor" in self.lines[-1]:
                    return

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.client.publish("end of the monitor", "")
        self.thread.join(60)
        self.client.close()
        self.seen["monitor"] = "\n".join(self.lines)


def traces(it: Arena) -> list[str]:
    """Return the pages of runs."""
    return [f"/trace/{run}/view" for [run] in query(it.gateway, "SELECT public_id FROM core_run")]


def exports(it: Arena) -> list[str]:
    """Return the addresses of conversations as files, and of their messages."""
    sessions = query(it.gateway, "SELECT public_id FROM core_chatsession")
    kinds = ("export", "messages")
    return [f"/chat/sessions/{each}/{kind}" for [each] in sessions for kind in kinds]


def stored(it: Arena) -> Iterator[tuple[str, str]]:
    """Yield the content of every table."""
    listed = (
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        if it.gateway.database_url.startswith("sqlite")
        else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    )
    for [table] in query(it.gateway, listed):
        yield f"table {table}", str(query(it.gateway, f'SELECT * FROM "{table}"'))


def held_by_the_broker(it: Arena) -> Iterator[tuple[str, str]]:
    """Yield what the broker keeps, by key."""
    with redis.Redis.from_url(it.gateway.broker.url) as client:
        for key in client.scan_iter(count=1000):
            yield f"broker {key!r}", repr(client.dump(key))


def files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of the gateway's home, and of its database if that is one."""
    for path in folder.rglob("*"):
        if path.is_file() and "static" not in path.parts:
            yield f"file {path}", path.read_bytes().decode("latin-1")


def diagnosis(it: Arena) -> str:
    """Return what the doctor says, whether it is content or not."""
    try:
        return it.gateway.manage("doctor")
    except AssertionError as error:
        return str(error)


def check_it_would_be_found(seen: dict[str, Any]) -> None:
    """Check that the search looks at something."""
    assert f"{TEXT}0" in seen["table core_run"]
    assert "by the admin" in seen["/admin/core/modelprovider/"]
    assert len(seen["monitor"]) > 1000
    assert len(seen["runs"]) > 1000
    assert any(path.startswith(PROVIDERS) for path in seen)
    for words in ("/trace/", "/export", "/messages"):
        assert any(words in path and TEXT in text for path, text in seen.items()), words
    assert "insufficient_quota" in seen["v1 quota"]
    protocols = {"v1": 2, "responses": 5, "messages stream": 2, "ag-ui": 7}
    for name, number in protocols.items():
        assert f"0q{number}" in seen[f"{name} "], name


def around(text: str, key: str) -> str:
    """Return what stands around a key."""
    at = text.index(key)
    return text[max(0, at - 300) : at + 300]
