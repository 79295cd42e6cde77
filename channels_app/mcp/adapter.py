"""The MCP tools: names, descriptions, arguments, results. Pure; imports no Django."""

import base64
import binascii
from typing import Annotated, Any

import mcp_types as types
import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

MOST_WAIT_SECONDS = 3600
Answer = dict[str, Any]

SEND_RESULT = """\
Send a finished result to the user as a message of its own, beside the stream of your terminal.

Call it when
- the user asks for an analysis, a report, an overview or anything with a structure;
- you hold something worth presenting: a table, a list, a summary, a diff, a piece of code;
- the user says "show me the results", "display what you found" or the like;
- the text would read better as one clean message than as lines of a terminal.

`content` is Markdown, and is shown formatted. For example
- a table: | Name | Size |\\n|------|------|\\n| a.py | 12 |
- code: ```python\\nprint("hi")\\n```
- headings, lists, **bold**, *italic*, `code`, links

Do not wrap the whole content in a code fence. A message holds about 4000 characters; of a longer \
one the user may see only the beginning, with a mark where it was cut. It is a new message each \
time: it is not edited later, and it stays until the session ends. The answer is \
{"status": "success", "message_id": "…"} or {"status": "error", "message": "…"}; after an error \
tell the user in the terminal."""
SEND_FILE = """\
Send a file to the user's chat: one that the gateway stores already (`file_id`), or an upload \
(`name` and `content_base64`). Paths are not accepted. Returns the same as send_result."""
LIST_SESSIONS = """\
The user's open sessions: id, title, channel, and which one is yours. Results always go to yours: \
it was chosen when you were started, and no argument changes it."""
WAIT_FOR_REPLY = """\
Wait for the user's next message in your session and return it. Ask your question with send_result \
first. Answers {"status": "success", "text": "…"}, and "media" with the names of \
files, of which you get no content, also not of a voice message: ask for words then. Or {"status": \
"timeout"} when the user has not written in time: then go on without, or wait again."""


class Arguments(BaseModel):
    """Arguments of a tool; unknown ones are refused ([S1]: no session among them)."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SendResult(Arguments):
    content: Annotated[str, Field(description="The result, as Markdown.")]


class SendFile(Arguments):
    file_id: Annotated[str, Field(max_length=64, description="Id of a stored file.")] = ""
    name: Annotated[str, Field(max_length=200, description="File name of an upload.")] = ""
    content_base64: Annotated[str, Field(description="Content of an upload, base64.")] = ""
    caption: Annotated[
        str, Field(max_length=4000, description="A line below the file; words after it.")
    ] = ""

    def upload(self) -> bytes:
        """Return the bytes of the upload. Raises ValueError for invalid base64."""
        try:
            return base64.b64decode(self.content_base64, validate=True)
        except binascii.Error as error:
            raise ValueError("content_base64 is not base64") from error


class ListSessions(Arguments):
    pass


class WaitForReply(Arguments):
    timeout_seconds: Annotated[
        float, Field(ge=0, le=MOST_WAIT_SECONDS, description="How long to wait.")
    ] = 300


TOOLS: dict[str, tuple[type[Arguments], str, str]] = {
    "send_result": (SendResult, "Send a result", SEND_RESULT),
    "send_file": (SendFile, "Send a file", SEND_FILE),
    "list_sessions": (ListSessions, "List sessions", LIST_SESSIONS),
    "wait_for_reply": (WaitForReply, "Wait for the user's reply", WAIT_FOR_REPLY),
}
READ_ONLY = {"list_sessions"}


def listed() -> list[types.Tool]:
    return [
        types.Tool(
            name=name,
            title=title,
            description=text,
            input_schema=schema(arguments),
            annotations=types.ToolAnnotations(
                read_only_hint=name in READ_ONLY, destructive_hint=False
            ),
        )
        for name, (arguments, title, text) in TOOLS.items()
    ]


def schema(arguments: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, without our docstrings."""
    found = arguments.model_json_schema()
    found.pop("description", None)
    return found


def read(name: str, given: dict[str, Any] | None) -> Arguments:
    """Parse a call's arguments. Raises LookupError for an unknown tool, and ValueError with the
    name of an argument, but not its content.
    """
    if name not in TOOLS:
        raise LookupError("There is no such tool.")
    arguments, _, _ = TOOLS[name]
    try:
        return arguments.model_validate(given or {})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:80]
        raise ValueError(f"{where}: {first['msg']}") from error


def result(answer: Answer) -> types.CallToolResult:
    """Wrap a result for the protocol: as JSON text, and structured."""
    text = orjson.dumps(answer).decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=answer,
        is_error=answer["status"] == "error",
    )
