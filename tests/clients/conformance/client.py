"""The client of MCP servers as a program for the conformance suite: lists the tools of the server
at the address that is the last argument, and calls each of them.

``MCP_CONFORMANCE_CONTEXT`` may name calls and their arguments. The suite starts dozens of clients
at once: this process loads the gateway once, serves a socket (its only argument), and forks a
client for each connection. ``connect.py`` is the command that the suite starts.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import django

VALUES: dict[str, Any] = {"integer": 2, "number": 2, "boolean": True, "array": [], "object": {}}


def arguments_for(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that a schema accepts, in most cases."""
    found = {}
    for name, each in (schema.get("properties") or {}).items():
        given = each if isinstance(each, dict) else {}
        found[name] = given.get("default", VALUES.get(str(given.get("type")), "test"))
    return found


async def main(url: str) -> None:
    """List and call."""
    from core.tools.mcp import client
    from core.tools.mcp.servers import ServerInfo

    server = ServerInfo(
        id=1,
        name="conformance",
        url=url,
        secrets="",
        key_header="",
        allow_private=True,
        seconds=20,
        protocol="",
    )
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    listing = await client.list_tools(server)
    calls = [(each["name"], each.get("arguments", {})) for each in context.get("toolCalls", ())]
    for name, arguments in calls or [
        (each.name, arguments_for(each.schema)) for each in listing.offers
    ]:
        called = await client.call(server, lambda _: True, name, arguments)
        print(name, called.result)


def serve(path: str) -> None:
    """Fork a client for each connection: it gets ``{"context", "url"}`` and says its exit code."""
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
        asyncio.run(main(wanted["url"]))
        code = "0"
    finally:
        connection.sendall(code.encode())
        connection.close()
        os._exit(0)


if __name__ == "__main__":
    django.setup()

    serve(sys.argv[-1])
