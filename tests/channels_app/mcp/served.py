"""The gateway's ASGI application on a port of this process, and the official MCP client for it."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

from gateway_project.processes import listener
from tests.servers import wait_until

Json = dict[str, Any]


@dataclass
class Served:
    """A web server in a thread."""

    port: int = field(default_factory=listener.free_port)
    server: uvicorn.Server | None = None
    thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Serve until :meth:`stop`."""
        from gateway_project.asgi import application

        config = uvicorn.Config(
            application,
            port=self.port,
            lifespan="off",
            log_level="error",
            ws="none",
            loop="asyncio",
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, name="web", daemon=True)
        self.thread.start()
        wait_until(lambda: self.server is not None and self.server.started)

    def stop(self) -> None:
        """Stop the server."""
        assert self.server is not None
        assert self.thread is not None
        self.server.should_exit = True
        self.thread.join(30)


@dataclass
class Agent:
    """A program with a key, and a session that its environment names."""

    url: str
    key: str
    session: str = ""
    mode: str = "auto"
    progress: list[str] = field(default_factory=list)

    def call(self, tool: str, **arguments: Any) -> Json:
        """Call a tool; return its result. Raises MCPError."""
        answer: Json = self.work(lambda client: self._call(client, tool, arguments))
        return answer

    def send(self, content: str) -> Json:
        """Call ``send_result``."""
        return self.call("send_result", content=content)

    def tools(self) -> dict[str, Any]:
        """Return the tools by name."""

        async def listed(client: Client) -> dict[str, Any]:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

        found: dict[str, Any] = self.work(listed)
        return found

    async def _call(self, client: Client, tool: str, arguments: Json) -> Json:
        async def told(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            self.progress.append(message or "")

        result = await client.call_tool(tool, arguments, progress_callback=told)
        answer: Json = result.structured_content
        assert result.is_error == (answer["status"] == "error")
        return answer

    def work(self, work: Callable[[Client], Any]) -> Any:
        """Connect, run ``work``, disconnect."""

        async def run() -> Any:
            headers = {"Authorization": f"Bearer {self.key}", "X-Session-Id": self.session}
            async with create_mcp_http_client(headers=headers) as http:
                transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
                async with Client(transport, mode=self.mode) as client:
                    return await work(client)

        return asyncio.run(unwrapped(run()))


async def unwrapped(work: Any) -> Any:
    """Await ``work``; raise the MCPError in an exception group by itself."""
    try:
        return await work
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, MCPError):
            raise error from None
        raise
