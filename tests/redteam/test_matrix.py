"""The isolation matrix: built from the URL configuration, the routes of consumers, the admin and
the frames of the socket, so that nothing new can be forgotten."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import orjson
import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from channels_app.asgi import throttling
from channels_app.webchat import frames
from core.database import transactions
from gateway_project.asgi import ROUTES
from tests.channels_app.webchat import conftest as webchat
from tests.loops import end_tasks
from tests.redteam import gateway_data
from tests.redteam.gateway_data import WHO, Answer, GatewayData
from tests.redteam.matrix import API, ENDPOINTS, FRAMES, PAGES, SOCKET_WHO, Row

pytestmark = pytest.mark.usefixtures("fresh_counters")

TABLE = {**PAGES, **API, **ENDPOINTS}
NOBODYS = "A" * 22
VERBS = {"get", "post", "put", "patch", "delete"}


def django_routes() -> Iterator[tuple[str, Any]]:
    """Yield pattern and view of every URL that Django serves."""

    def walk(patterns: Any, before: str) -> Iterator[tuple[str, Any]]:
        for each in patterns:
            if isinstance(each, URLResolver):
                yield from walk(each.url_patterns, before + str(each.pattern))
            elif isinstance(each, URLPattern):
                yield before + str(each.pattern), each.callback

    yield from walk(get_resolver().url_patterns, "")


ADMIN = [route for route, _ in django_routes() if route.startswith("admin/")]


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    """A new endpoint without a decision fails here: add a row to ``matrix.py``."""
    served = {route for route, _ in django_routes() if not route.startswith("admin/")}
    served |= {str(route.pattern) for route in ROUTES}
    assert served == set(TABLE)


def test_every_method_of_an_api_view_has_a_row() -> None:
    for route, view in django_routes():
        if route not in API:
            continue
        if hasattr(view, "actions"):  # of a view set
            offered = VERBS & set(view.actions) & set(view.cls.http_method_names)
        else:
            methods = set(view.view_class.http_method_names)
            offered = {name for name in VERBS & methods if hasattr(view.view_class, name)}
        assert {row.method.lower() for row in API[route]} == offered, route


def ask(gateway: GatewayData, who: str, row: Row, *, missing: bool = False) -> Answer:
    """Send a row's request; with ``missing``, about things that do not exist."""
    names = dict(gateway.names)
    if missing:
        gateway.names = dict.fromkeys(names, NOBODYS)
    try:
        body = row.body
        if isinstance(body, dict):
            body = {
                key: gateway.fill(value) if isinstance(value, str) else value
                for key, value in body.items()
            }
        return gateway.ask(who, row.method, gateway.fill(row.path), body, **dict(row.headers))
    finally:
        gateway.names = names


def rows_of(table: dict[str, list[Row]]) -> Any:
    """Return a parameter for each row."""
    every = [(route, row) for route, rows in table.items() for row in rows]
    names = [f"{row.method} {row.path}"[:60] for _, row in every]
    return pytest.mark.parametrize(("route", "row"), every, ids=names)


@rows_of({**PAGES, **API})
def test_each_role_gets_the_tables_status_from_pages(route: str, row: Row, db: None) -> None:
    """[A10] Identity from the credential, never from the body."""
    keeps_to_the_table(route, row, gateway_data.build())


@rows_of(ENDPOINTS)
def test_each_role_gets_the_tables_status_from_endpoints(
    route: str, row: Row, transactional_db: None
) -> None:
    """[A10] The same at the endpoints outside Django."""
    keeps_to_the_table(route, row, gateway_data.build())


def keeps_to_the_table(route: str, row: Row, gateway: GatewayData) -> None:
    """Send the row in every role; the object's own user and the owner last, since they may
    change it.
    """
    expected = dict(zip(WHO, row.statuses.split(), strict=True))
    got: dict[str, str] = {}
    for who in sorted(WHO, key=lambda name: (name == "own", name == "owner")):
        answer = ask(gateway, who, row)
        got[who] = str(answer.status)
        assert b"Traceback" not in answer.body
        assert answer.status < 500 or route == "readyz"
        if row.hides and who == "other":
            missing = ask(gateway, who, row, missing=True)
            assert (answer.status, hidden(answer)) == (missing.status, hidden(missing))
    assert got == {who: expected[who] for who in got}


def hidden(answer: Answer) -> bytes:
    """Return a body without its random parts (the token of its forms)."""
    return re.sub(rb'value="[A-Za-z0-9]{64}"', b"", answer.body)


def test_rq17_the_admin_is_404_without_staff_rights(db: None) -> None:
    """[RQ19] And staff without rights see no page but the first one and their own password."""
    gateway = gateway_data.build()
    assert len(ADMIN) > 50
    for route in ADMIN:
        path = "/" + re.sub(r"<[^>]*>", "1", route.split("^(?P")[0].split("(?P")[0])
        for who in ("anonymous", "own"):
            assert gateway.ask(who, "GET", path).status == 404, (route, who)
        assert gateway.ask("other", "POST", path).status in {404, 405}, route
        for method in ("GET", "POST"):
            staff = gateway.ask("staff", method, path).status
            assert staff in allowed_to_staff(route), (route, method, staff)


def allowed_to_staff(route: str) -> set[int]:
    """Return the statuses that staff without any right may get from an admin page."""
    own = ("admin/password_change", "admin/(?P", "admin/^(?P")
    everybodys = ("", "login/", "logout/", "search/", "jsi18n/", "changes/")
    if route in {f"admin/{page}" for page in everybodys}:
        return {200, 302, 405}
    if route.startswith(own):
        return {200, 302, 404, 405}
    return {302, 400, 403, 404, 405}


@pytest.mark.django_db(transaction=True)
class TestSocket:
    """The frames of ``/ws``."""

    @pytest.fixture(autouse=True)
    def host(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Give the gateway the host name of the webchat tests, and no open sockets."""
        settings.ALLOWED_HOSTS = [webchat.HOST, gateway_data.HOST]
        monkeypatch.setattr(throttling, "sockets", throttling.Streams())

    @pytest.fixture(autouse=True)
    async def tidy(self) -> Any:
        """End the hub of this loop after the test."""
        yield
        await end_tasks()

    def test_every_frame_has_a_row(self) -> None:
        assert {kind.__name__ for kind in get_args(frames.Frame)} == set(FRAMES)

    @pytest.mark.parametrize(
        ("name", "number"), [(name, i) for name, rows in FRAMES.items() for i in range(len(rows))]
    )
    async def test_each_role_gets_the_tables_result(self, name: str, number: int) -> None:
        """[D3] Every role sends the frame; its result is what arrives before the pong."""
        gateway = await transactions.in_thread(gateway_data.build)
        frame, expected = FRAMES[name][number]
        filled = {
            key: gateway.fill(value) if isinstance(value, str) else value
            for key, value in frame.items()
        }
        wanted = dict(zip(SOCKET_WHO, expected, strict=True))
        for who in sorted(SOCKET_WHO, key=lambda each: each in {"own", "owner"}):
            assert (who, await outcome(gateway, who, filled)) == (who, wanted[who])


async def outcome(gateway: GatewayData, who: str, frame: dict[str, Any]) -> str:
    """Return the result of a frame of ``who``."""
    cookie = ""
    if who in gateway.people:
        cookie = await transactions.in_thread(webchat.sign_in, gateway.people[who])
    async with webchat.opened(cookie=cookie) as socket:
        if who in {"revoked", "bridge"}:
            await socket.say(type="auth", key=gateway.tokens[who])
            if who == "revoked":
                return f"closed {await socket.closed()}"
            assert (await socket.hear())["type"] == "authenticated"
        await socket.say(**frame)
        if who == "anonymous":
            return await until_closed(socket)
        return await until_pong(socket, pings=frame["type"] == "ping" if "type" in frame else False)


async def until_closed(socket: webchat.Socket) -> str:
    """Return the frames and the close code of a socket."""
    told: list[str] = []
    while True:
        message = await socket.wire.receive_output(webchat.SECONDS)
        if message["type"] == "websocket.close":
            return " ".join([*told, f"closed {message['code']}"])
        told.append(described(orjson.loads(message["text"])))


async def until_pong(socket: webchat.Socket, *, pings: bool) -> str:
    """Return the frames before the pong, without the notice of a pending request that every
    owner gets.
    """
    if pings:
        found = await socket.until(lambda frame: frame["type"] == "pong")
        return described(found[-1])
    await socket.say(type="ping")
    found = await socket.until(lambda frame: frame.get("type") == "pong")
    told = [each for each in found[:-1] if each.get("decided") or each.get("type") != "notice"]
    return " ".join(dict.fromkeys(described(each) for each in told))


def described(frame: dict[str, Any]) -> str:
    """Return a frame's type and the status of an error."""
    words = [str(frame.get("type", "")), str(frame["status"]) if "status" in frame else ""]
    return " ".join(word for word in words if word)
