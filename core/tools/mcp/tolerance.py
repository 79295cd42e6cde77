"""Answers of MCP servers without the parts that do not follow the protocol.

The SDK refuses an answer as a whole: for one tool the server would lose all, and a result whose
call was made would be unknown.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.methods import validate_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

logger = logging.getLogger(__name__)

Json = dict[str, Any]

STRICTEST = HANDSHAKE_PROTOCOL_VERSIONS[-1]  # newer protocols take all that this one takes
READ = ("name", "title", "description")  # of a tool, beside its schema and its hints


class Dispatcher(JSONRPCDispatcher[Any]):
    """Sends requests; their results come as :func:`kept` leaves them."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, *arguments: Any, **more: Any
    ) -> Json:
        return kept(method, await super().send_raw_request(method, params, *arguments, **more))


def kept(method: str, answer: Json) -> Json:
    """Return an answer with what of it follows the protocol, or can be read all the same."""
    if method == "tools/list" and isinstance(answer.get("tools"), list):
        tools = [tool for each in answer["tools"] if (tool := tool_of(each)) is not None]
        if len(tools) < len(answer["tools"]):
            logger.warning("an MCP server lists tools that do not follow the protocol")
        return {**answer, "tools": tools}
    if method == "tools/call" and answer.get("resultType", "complete") == "complete":
        return result_of(answer)
    return answer


def tool_of(given: Any) -> Json | None:
    """Return a tool with its readable parts; None for one that cannot be called."""
    if not isinstance(given, dict):
        return None
    schema = given.get("inputSchema") or {}
    if isinstance(schema, dict):
        schema = {"type": "object", **schema}
        if schema.get("properties", {}) in ([], None):  # PHP writes {} as []; {} stays, as accepted
            del schema["properties"]
    tool = {**{name: given.get(name) for name in READ}, "inputSchema": schema}
    hinted = {**tool, "annotations": given.get("annotations")}
    return next((each for each in (hinted, tool) if fits("tools/list", {"tools": [each]})), None)


def result_of(answer: Json) -> Json:
    """Return the result of a call: pieces that the protocol does not know as JSON."""
    content = answer.get("content") or []
    pieces = content if isinstance(content, list) else [content]
    structured = answer.get("structuredContent")
    if not isinstance(structured, dict | None):
        structured = {"result": structured}
    return {
        **answer,
        "content": [piece_of(each) for each in pieces],
        "structuredContent": structured,
        "isError": answer.get("isError") is True,
    }


def piece_of(given: Any) -> Json:
    """Return a piece of a result; as text where it is none."""
    if isinstance(given, dict):
        piece = {name: each for name, each in given.items() if name not in ("annotations", "_meta")}
        if fits("tools/call", {"content": [piece]}):
            return piece
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return {"type": "text", "text": text}


def fits(method: str, answer: Json) -> bool:
    """Return whether an answer follows the protocol."""
    try:
        validate_server_result(method, STRICTEST, answer)
    except ValidationError:
        return False
    return True
