"""The client of MCP servers as a program for the conformance suite: lists the tools of the server
at the address that is the last argument, and calls each of them.

``MCP_CONFORMANCE_CONTEXT`` may name calls and their arguments, or a client that is registered. The
suite starts dozens of clients at once: this process loads the gateway once, with a database, serves
a socket (its only argument), and forks a client for each connection. ``connect.py`` is the command
that the suite starts.

At servers that want people to sign in, a person does so as in the gateway: the question's sign-in
is begun, a browser follows the address, and the callback ends it.
"""

import asyncio
import importlib
import json
import os
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import django

VALUES: dict[str, Any] = {"integer": 2, "number": 2, "boolean": True, "array": [], "object": {}}
CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"  # that the suite expects
MOST_SIGN_INS = 5
SECONDS = 120  # dozens of clients share the machine
HEAVY = (
    "channels_app.tool_requests.signing_in",
    "core.tools.mcp.client",
    "core.tools.mcp.oauth.flow",
)


def arguments_for(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that a schema accepts, in most cases."""
    found = {}
    for name, each in (schema.get("properties") or {}).items():
        given = each if isinstance(each, dict) else {}
        found[name] = given.get("default", VALUES.get(str(given.get("type")), "test"))
    return found


def main(url: str, scenario: str) -> None:
    """List and call."""
    from core.tools.mcp import client
    from core.tools.mcp.servers import info_of

    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    row, user = rows_for(url, context, signs_in=scenario.startswith("auth/"))
    info = info_of(row)
    listing = signed_in(row, user, lambda token: client.list_tools(info, token=token))
    calls = [(each["name"], each.get("arguments", {})) for each in context.get("toolCalls", ())]
    for name, arguments in calls or [
        (each.name, arguments_for(each.schema)) for each in listing.offers
    ]:
        called = signed_in(row, user, calling(info, name, arguments))
        print(name, called.result)


def calling(info: Any, name: str, arguments: Any) -> Callable[[str], Awaitable[Any]]:
    """Return the work of one call."""
    from core.tools.mcp import client

    return lambda token: client.call(info, lambda _: True, name, arguments, token=token)


def rows_for(url: str, context: dict[str, Any], *, signs_in: bool) -> tuple[Any, Any]:
    """Return the server and the person of a client."""
    from core.lib.encryption import encrypt
    from core.models import McpServer, User

    name = secrets.token_hex(8)
    secret = context.get("client_secret", "")
    row = McpServer.objects.create(
        name=name,
        slug=name,
        url=url,
        allow_private=True,
        seconds=SECONDS,
        authentication="person" if signs_in else "key",
        client_id=context.get("client_id", ""),
        secrets=encrypt({"client_secret": secret} if secret else {}),
    )
    return row, User.objects.create(username=name)


def signed_in(row: Any, user: Any, work: Callable[[str], Awaitable[Any]]) -> Any:
    """Return the result of ``work``; the person signs in where that is asked for."""
    from core.tools.base import SignInError
    from core.tools.mcp import client
    from core.tools.mcp.oauth import signed_in as calls
    from core.tools.mcp.servers import info_of

    info = info_of(row)

    async def once() -> Any:
        if not info.signs_in:
            return await work("")
        return await calls.call(info, user.pk, work, challenge=lambda: client.challenge_of(info))

    for _ in range(MOST_SIGN_INS):
        try:
            return asyncio.run(once())
        except SignInError as error:
            sign_in(row, user, error.wanted)
    raise AssertionError("asked too often")


def sign_in(row: Any, user: Any, wanted: Any) -> None:
    """Do what a person does: open the link, sign in, and come back."""
    from django.utils import timezone

    from channels_app.tool_requests import signing_in
    from core.models import McpSignIn

    row.refresh_from_db()
    question = McpSignIn.objects.create(
        server=row,
        user=user,
        scope=wanted.scope,
        resource_metadata=wanted.resource_metadata,
        expires_at=timezone.now() + timedelta(hours=1),
    )
    address = signing_in.begin(question, browser="browser", by=user)
    back = {name: values[0] for name, values in parse_qs(urlsplit(follow(address)).query).items()}
    finished = signing_in.finish(
        slug=row.slug,
        state=back.get("state", ""),
        browser="browser",
        code=back.get("code", ""),
        issuer=back.get("iss"),
        error=back.get("error", ""),
        visitor=user.pk,
        now=timezone.now(),
    )
    assert finished.outcome == "done", finished


def follow(address: str) -> str:
    """Return where the authorization server sends the browser."""
    import httpx2

    answer = httpx2.get(address, follow_redirects=False, trust_env=False)
    return answer.headers["location"]


def serve(path: str) -> None:
    """Fork a client for each connection: it gets ``{"context", "scenario", "url"}`` and says its
    exit code.
    """
    from django.core.management import call_command
    from django.db import connections

    for name in HEAVY:
        importlib.import_module(name)
    call_command("migrate", verbosity=0)
    connections.close_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path + ".new")
        listener.listen(100)
        Path(path + ".new").rename(path)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                answer(connection)
            connection.close()


def answer(connection: socket.socket) -> None:
    """Run a client in this process, and end it."""
    code = "1"
    try:
        wanted = json.loads(connection.makefile().readline())
        os.environ["MCP_CONFORMANCE_CONTEXT"] = wanted["context"]
        main(wanted["url"], wanted["scenario"])
        code = "0"
    except Exception:  # noqa: BLE001 - the exit code says it, and the log why
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        connection.sendall(code.encode())
        connection.close()
        os._exit(0)


if __name__ == "__main__":
    django.setup()

    from core.tools.mcp import client
    from core.tools.mcp.oauth import flow, pages

    pages.client_document = lambda slug: CLIENT_DOCUMENT
    client.LIST_SECONDS = flow.SECONDS = float(SECONDS)

    serve(sys.argv[-1])
