"""The rest of the isolation matrix: tools of the MCP server, sockets and their frames, actions of
the admin. Each list is the product's own, so that nothing new is forgotten."""

import ast
import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.test import RequestFactory
from django.urls import get_resolver

from allowlist.models import UnknownRequest
from channels_app.asgi.http import Scope
from channels_app.webchat import frames, urls
from core.database import transactions
from core.models import User
from gateway_project.asgi import application
from tests.channels_app.webchat import conftest as webchat
from tests.loops import end_tasks
from tests.redteam import gateway_data
from tests.redteam.gateway_data import WHO, GatewayData
from tests.redteam.matrix import ACTIONS, FRAMES, SOCKETS, TOOLS

NOBODYS = "A" * 22


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    """Close the connections of all threads."""
    yield
    transactions.close_pool()


# Tools -------------------------------------------------------------------------------------------


def call(gateway: GatewayData, who: str, method: str, params: dict[str, Any], session: str) -> Any:
    """Send one MCP request; return the status and the answer."""
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    headers = {
        "host": gateway_data.HOST,
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "x-session-id": session,
    }
    if who in gateway.tokens:
        headers["authorization"] = f"Bearer {gateway.tokens[who]}"
    return asyncio.run(posted(body, headers))


async def posted(body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    """Send ``POST /mcp`` as a client that stays until it has its answer."""
    sent: list[Scope] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Scope:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop()

    async def send(message: Scope) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("192.0.2.7", 1),
    }
    try:
        async with asyncio.timeout(120):
            await application(scope, receive, send)
    finally:
        await end_tasks()
        await asyncio.to_thread(transactions.close_pool)
    raw = b"".join(each.get("body", b"") for each in sent[1:])
    data = [line[5:] for line in raw.splitlines() if line.startswith(b"data:") and line[5:].strip()]
    return int(sent[0]["status"]), orjson.loads(data[-1] if data else raw)


def outcome(status: int, answer: Any) -> tuple[str, str]:
    """Return the word of the table and the text of the answer."""
    if status != 200:
        return str(status), ""
    given = answer["result"]["structuredContent"]
    return given["status"], given.get("message", "")


def test_every_tool_of_the_server_has_a_row(transactional_db: None) -> None:
    gateway = gateway_data.build()
    _, answer = call(gateway, "own", "tools/list", {}, "")
    assert {tool["name"] for tool in answer["result"]["tools"]} == set(TOOLS)


@pytest.mark.parametrize("tool", TOOLS)
def test_a10_each_role_gets_the_tables_result_from_a_tool(
    tool: str, transactional_db: None
) -> None:
    """[A10] RM3: the key says whose sessions and files there are."""
    gateway = gateway_data.build()
    template, statuses = TOOLS[tool]
    expected = dict(zip(WHO, statuses.split(), strict=True))
    got = {}
    for who in WHO:
        arguments = {
            key: gateway.fill(value) if isinstance(value, str) else value
            for key, value in template.items()
        }
        params = {"name": tool, "arguments": arguments}
        got[who], said = outcome(*call(gateway, who, "tools/call", params, gateway.names["agent"]))
        if who == "other" and got[who] == "error":
            assert said == outcome(*call(gateway, who, "tools/call", params, NOBODYS))[1]
    assert got == expected


def test_a10_a_tool_names_no_session_and_no_file_of_others(transactional_db: None) -> None:
    """[A10] RM3: with a session of one's own, another person's file does not exist."""
    gateway = gateway_data.build()
    made = gateway.ask("other", "POST", "/api/agent-sessions", {"channel": "web"})
    session = orjson.loads(made.body)["id"]
    said = []
    for file in (gateway.names["file"], NOBODYS):
        params = {"name": "send_file", "arguments": {"file_id": file}}
        said.append(outcome(*call(gateway, "other", "tools/call", params, session)))
    assert said[0] == said[1]
    assert said[0][0] == "error"
    _, answer = call(gateway, "other", "tools/call", {"name": "list_sessions", "arguments": {}}, "")
    listed = answer["result"]["structuredContent"]["sessions"]
    assert [each["id"] for each in listed] == [session]


# Sockets -----------------------------------------------------------------------------------------


def cases_of(function: Any) -> set[str]:
    """Return the words that a function's ``match`` knows."""
    tree = ast.parse(inspect.getsource(function))
    return {
        str(case.pattern.value.value)
        for case in ast.walk(tree)
        if isinstance(case, ast.match_case)
        and isinstance(case.pattern, ast.MatchValue)
        and isinstance(case.pattern.value, ast.Constant)
    }


def test_every_type_of_frame_that_the_parser_knows_has_a_row() -> None:
    rows = {frame["type"] for rows in FRAMES.values() for frame, _ in rows if "type" in frame}
    assert cases_of(frames.read) == rows
    assert rows == SOCKETS["/ws"][1] | {"ping"}


def test_every_socket_has_a_row() -> None:
    open_to_some = [each for each in urls.SOCKETS if each.callback is not urls.no_socket]
    addresses = [f"/{each.pattern}" for each in open_to_some]
    assert {"/ws" if each == "/" else each for each in addresses} == set(SOCKETS)


@pytest.mark.django_db(transaction=True)
class TestSockets:
    """Access to sockets, and their frames."""

    @pytest.fixture(autouse=True)
    async def hub_ends(self, settings: Any) -> Any:
        """End the hub of this loop after the test."""
        settings.ALLOWED_HOSTS = [webchat.HOST, gateway_data.HOST]
        yield
        await end_tasks()

    @pytest.mark.parametrize("path", SOCKETS)
    async def test_rws1_a_cookie_opens_the_tables_sockets(self, path: str) -> None:
        """[RWS1]"""
        gateway = await transactions.in_thread(gateway_data.build)
        opens = set()
        for who in ("other", "own", "staff", "owner"):
            cookie = await transactions.in_thread(webchat.sign_in, gateway.people[who])
            if await may_open(path, cookie):
                opens.add(who)
        assert opens == SOCKETS[path][0]
        assert not await may_open(path, "guessed")

    async def test_a10_the_admin_socket_accepts_pings_only(self) -> None:
        """[A10] And whether the page is in view; all other frames are refused."""
        gateway = await transactions.in_thread(gateway_data.build)
        cookie = await transactions.in_thread(webchat.sign_in, gateway.people["owner"])
        async with webchat.opened(path="/ws/desk", cookie=cookie) as socket:
            for rows in FRAMES.values():
                for frame, _ in rows:
                    if frame.get("type") in ("ping", "visible"):
                        continue
                    filled = {
                        key: gateway.fill(value) if isinstance(value, str) else value
                        for key, value in frame.items()
                    }
                    await socket.say(**filled)
                    (*_, told) = await socket.until(lambda each: each["type"] == "error")
                    assert told["status"] == 400, frame


async def may_open(path: str, cookie: str) -> bool:
    """Return whether the handshake succeeds."""
    try:
        async with webchat.opened(path=path, cookie=cookie):
            return True
    except AssertionError:
        return False


# Actions of the admin ----------------------------------------------------------------------------


def offered(person: User) -> dict[str, set[str]]:
    """Return the actions of each admin page that ``person`` is offered, by model."""
    assert get_resolver().url_patterns  # the registry is filled by the URLs
    request = RequestFactory().get("/admin/")
    request.user = person
    return {
        model._meta.label: set(page.get_actions(request))
        for model, page in admin.site._registry.items()
    }


def test_every_action_of_the_admin_has_a_row(db: None) -> None:
    """The list of actions is the one offered to an owner."""
    found = offered(gateway_data.build().people["owner"])
    assert {label: names for label, names in found.items() if names} == {
        label: set(rows) for label, rows in ACTIONS.items()
    }


def test_rq19_view_permissions_change_nothing(db: None) -> None:
    """[RQ19] Staff without permissions get no actions, nor do those with view permissions only."""
    gateway = gateway_data.build()
    staff = gateway.people["staff"]
    assert not any(offered(staff).values())
    staff.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    viewer = User.objects.get(pk=staff.pk)
    allowed = {
        label: {name for name, may in rows.items() if may} for label, rows in ACTIONS.items()
    }
    found = offered(viewer)
    assert {label: found[label] for label in ACTIONS} == allowed
    stranger = gateway.names["request"]
    page = "/admin/allowlist/unknownrequest/"
    for action in ACTIONS["allowlist.UnknownRequest"]:
        form = f"action={action}&_selected_action=1".encode()
        client = gateway.browser("staff")
        client.force_login(viewer, backend=gateway_data.BACKEND)
        answer = client.post(
            page,
            form,
            content_type="application/x-www-form-urlencoded",
            SERVER_NAME=gateway_data.HOST,
        )
        assert answer.status_code in {200, 302, 403}
    assert UnknownRequest.objects.get(public_id=stranger).state == "pending"
