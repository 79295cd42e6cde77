"""The MCP server ([D7]) over the official SDK: the tools and their effects, per user."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from django.conf import settings
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from channels_app.agent_sessions import results
from channels_app.agent_sessions.results import NotSentError
from channels_app.agent_sessions.sessions import wait_for_reply
from channels_app.asgi.principal import Principal
from channels_app.mcp import adapter
from core.conversations import sessions
from core.database.transactions import in_thread
from core.files import storage
from core.files.quota import QuotaExceededError
from core.lib.ids import is_public_id
from core.lib.text import one_line
from core.models import ChatSession, StoredFile, User

logger = logging.getLogger(__name__)

NAME = "latchkey"
INSTRUCTIONS = (
    "Messages to the person you work for, in the chat they read. Present finished results with "
    "send_result; the session is chosen for you."
)
MOST_SESSIONS = 100
Context = ServerRequestContext[Any, Any]


class RefusedCallError(Exception):
    """The key is no longer valid; the text gives the reason."""


Identify = Callable[[Context], Awaitable[Principal]]


def build(identify: Identify) -> Server[Any]:
    """Return a server whose callers ``identify`` finds (it raises RefusedCallError)."""

    async def on_list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(tools=adapter.listed())

    async def on_call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            arguments = adapter.read(params.name, params.arguments)
            principal = await identify(context)
        except LookupError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except ValueError as error:  # a result, which a model reads and repairs (MCP's SEP-1303)
            return adapter.result({"status": "error", "message": str(error)})
        except RefusedCallError as error:
            raise MCPError(types.INVALID_REQUEST, str(error)) from error
        return adapter.result(await guarded(principal, arguments, Progress(context)))

    return Server(
        NAME,
        version="1",
        title="Latchkey",
        instructions=INSTRUCTIONS,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )


@dataclass(slots=True)
class Progress:
    """Report progress of a long call to a client that asked for it; the number only grows."""

    context: Context
    reports: int = 0

    async def __call__(self, message: str) -> None:
        self.reports += 1
        await self.context.session.report_progress(float(self.reports), message=message)


async def guarded(
    principal: Principal, arguments: adapter.Arguments, report: results.Report
) -> adapter.Answer:
    """Execute a tool; errors are results too ([S1])."""
    try:
        return await perform(principal, arguments, report)
    except NotSentError as error:
        return {"status": "error", "message": str(error)}
    except Exception:
        logger.exception("a tool call failed")
        return {"status": "error", "message": "Something went wrong in the gateway."}


async def perform(
    principal: Principal, arguments: adapter.Arguments, report: results.Report
) -> adapter.Answer:
    """Return the result of a tool. Raises NotSentError."""
    match arguments:
        case adapter.SendResult():
            sent = await in_thread(put_result, principal, arguments)
            return {"status": "success", "message_id": await results.arrival(sent, report=report)}
        case adapter.SendFile():
            sent = await in_thread(put_file, principal, arguments)
            return {"status": "success", "message_id": await results.arrival(sent, report=report)}
        case adapter.ListSessions():
            return {"status": "success", "sessions": await in_thread(listed, principal)}
        case adapter.WaitForReply():
            return await wait(principal, arguments, report)
    raise AssertionError(f"{type(arguments).__name__} has no tool")


def put_result(principal: Principal, arguments: adapter.SendResult) -> results.Sent:
    """Queue a result for delivery. Raises NotSentError."""
    if len(arguments.content) > settings.MAX_TEXT_CHARACTERS:
        raise NotSentError(f"The content is longer than {settings.MAX_TEXT_CHARACTERS} characters.")
    session = results.own(user=principal.person, session_id=principal.session_id)
    return results.put_text(session=session, content=arguments.content)


def put_file(principal: Principal, arguments: adapter.SendFile) -> results.Sent:
    """Queue a file for delivery. Raises NotSentError."""
    session = results.own(user=principal.person, session_id=principal.session_id)
    results.destination(session)
    file = given_file(principal.person, session, arguments)
    return results.put_file(session=session, file=file, caption=arguments.caption)


def given_file(user: User, session: ChatSession, arguments: adapter.SendFile) -> StoredFile:
    """Return the stored file, or store the upload. Raises NotSentError."""
    if bool(arguments.file_id) == bool(arguments.content_base64):
        raise NotSentError("Give either file_id, or name and content_base64.")
    if arguments.file_id:
        found = None
        if is_public_id(arguments.file_id):
            own = StoredFile.objects.filter(user=user, revoked_at__isnull=True)
            found = own.filter(public_id=arguments.file_id).first()
        if found is None:
            raise NotSentError("There is no file with this file_id.")
        return found
    try:
        content = arguments.upload()
    except ValueError as error:
        raise NotSentError(f"{error}.") from error
    name = one_line(arguments.name.replace("\\", "/").rpartition("/")[2], 200)
    try:
        return storage.keep(user=user, name=name or "file", content=content, session_id=session.id)
    except (QuotaExceededError, storage.NotStoredError) as error:
        raise NotSentError(str(error)) from error


def listed(principal: Principal) -> list[adapter.Answer]:
    """Return the user's open sessions, latest first."""
    return [
        {
            "id": row.public_id,
            "title": one_line(row.title, 120),
            "channel": row.account.channel,
            "for_agent": row.for_agent,
            "current": row.public_id == principal.session_id,
        }
        for row in sessions.every(user=principal.person, limit=MOST_SESSIONS)
    ]


async def wait(
    principal: Principal, arguments: adapter.WaitForReply, report: results.Report
) -> adapter.Answer:
    """Wait for the user's next message. Raises NotSentError."""
    session = await in_thread(results.own, user=principal.person, session_id=principal.session_id)
    reply = await wait_for_reply(session=session, seconds=arguments.timeout_seconds, report=report)
    if reply is None:
        return {"status": "timeout", "message": "The user has not written."}
    found: adapter.Answer = {
        "status": "success",
        "text": reply.text,
        "message_id": reply.message_id,
        "at": reply.at.isoformat(),
    }
    return {**found, "media": reply.media} if reply.media else found


async def serve_stdio(identify: Identify) -> None:
    """Serve one client on standard input and output until it disconnects."""
    server = build(identify)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
