"""The conversation of a request, checked block by block and converted to OpenAI's form.

``cache_control`` and other hints on blocks change nothing here. Thinking that comes back is
accepted and left out: the form has no place for it. Errors name the field by its path.
"""

import json
from collections.abc import Iterator
from typing import Any

from channels_app.asgi import chat_messages, images
from channels_app.asgi.chat_messages import DATA_PICTURE, Json, refused
from channels_app.asgi.http import RefusedError
from core.lib.ids import is_public_id
from core.lib.text import in_ascii

FAILED = "[The tool failed.]"
PICTURES = "[Its pictures follow.]"
USER_BLOCKS = "text, image, document, search_result or tool_result"
RESULT_BLOCKS = "text, image, document, search_result or tool_reference"
ASSISTANT_BLOCKS = "text, tool_use, thinking or redacted_thinking"
MOST_OF_A_TYPE = 64  # characters in an error


def conversation(system: Any, messages: Any) -> list[Json]:
    """Convert messages for the model. Raises RefusedError naming the invalid field."""
    if not isinstance(messages, list) or not messages:
        raise refused("must be a list with at least one message", "messages")
    most = chat_messages.MAX_MESSAGES
    if len(messages) > most:
        raise refused(f"holds more than {most} messages", "messages", status=413)
    called: set[str] = set()
    found = system_message(system, "system")
    for number, each in enumerate(messages):
        found += message(each, f"messages[{number}]", called)
    chat_messages.keep_newest_pictures(found, "messages")
    if not any(each["content"] for each in found if each["role"] != "system"):
        raise refused("must not be empty", "messages")
    return found


def message(value: Any, field: str, called: set[str]) -> list[Json]:
    """Convert one message; ``called`` are the ids of the tool calls so far. Results of tools come
    before what else a message says, as OpenAI has it.
    """
    if not isinstance(value, dict):
        raise refused("must be an object", field)
    given, where = value.get("content"), f"{field}.content"
    match value.get("role"):
        case "user":
            return user(given, where, called)
        case "assistant":
            return assistant(given, where, called)
        case "system":
            return system_message(given, where)
    raise refused("must be user, assistant or system", f"{field}.role")


def system_message(value: Any, field: str) -> list[Json]:
    """Convert a system prompt; none for an empty one."""
    if value is None:
        return []
    said = []
    for each, where in blocks(value, field):
        if each.get("type") != "text":
            raise unknown(each, "text", where)
        said.append(text(each, where))
    whole = "\n\n".join(filter(None, said))
    return [{"role": "system", "content": whole}] if whole else []


def blocks(value: Any, field: str) -> Iterator[tuple[Json, str]]:
    """Yield the blocks of a content, each with its path; a string is one block."""
    if isinstance(value, str):
        yield {"type": "text", "text": value}, field
        return
    if not isinstance(value, list):
        raise refused("must be a string or a list of blocks", field)
    for number, each in enumerate(value):
        where = f"{field}[{number}]"
        if not isinstance(each, dict):
            raise refused("must be an object", where)
        yield each, where


def text(block: Json, field: str) -> str:
    given = block.get("text")
    return chat_messages.text(given, f"{field}.text" if field.endswith("]") else field)


def user(value: Any, field: str, called: set[str]) -> list[Json]:
    """Convert a message of the person, with results of the client's tools."""
    results: list[Json] = []
    said: list[Json] = []
    for each, where in blocks(value, field):
        if each.get("type") == "tool_result":
            result, pictures = tool_result(each, where, called)
            results.append(result)
            said += pictures
        else:
            said += parts(each, where, allowed=USER_BLOCKS)
    return [*results, {"role": "user", "content": joined(said)}] if said else results


def assistant(value: Any, field: str, called: set[str]) -> list[Json]:
    """Convert a message of the assistant, with its calls of the client's tools."""
    said: list[str] = []
    calls: list[Json] = []
    for each, where in blocks(value, field):
        match each.get("type"):
            case "text":
                said.append(text(each, where))
            case "tool_use":
                calls.append(tool_use(each, where))
            case "thinking" | "redacted_thinking":
                continue
            case _:
                raise unknown(each, ASSISTANT_BLOCKS, where)
    if len(calls) > chat_messages.MAX_CALLS:
        raise refused(f"holds more than {chat_messages.MAX_CALLS} calls", field)
    called.update(call["id"] for call in calls)
    whole = DATA_PICTURE.sub(r"\1()", "\n\n".join(said))
    if not (whole or calls):
        return []
    found: Json = {"role": "assistant", "content": whole}
    return [{**found, "tool_calls": calls} if calls else found]


def tool_use(block: Json, field: str) -> Json:
    given = block.get("input")
    if not isinstance(given, dict):
        raise refused("must be an object", f"{field}.input")
    arguments = chat_messages.text(json.dumps(given, ensure_ascii=False), f"{field}.input")
    name = chat_messages.name(block.get("name"), f"{field}.name")
    return {
        "id": chat_messages.text(block.get("id"), f"{field}.id"),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def tool_result(block: Json, field: str, called: set[str]) -> tuple[Json, list[Json]]:
    """Convert a tool's result: its text; pictures and documents follow as the person's parts."""
    call_id = chat_messages.text(block.get("tool_use_id"), f"{field}.tool_use_id")
    if call_id not in called:
        raise refused("answers no tool_use before it", f"{field}.tool_use_id")
    said: list[Json] = []
    given = block.get("content")
    for each, where in blocks("" if given is None else given, f"{field}.content"):
        if each.get("type") == "tool_reference":
            name = chat_messages.name(each.get("tool_name"), f"{where}.tool_name")
            said.append(text_part(f"[The tool {name} can be called.]"))
        else:
            said += parts(each, where, allowed=RESULT_BLOCKS)
    texts = [each["text"] for each in said if each["type"] == "text"]
    others = [each for each in said if each["type"] != "text"]
    if block.get("is_error") is True:
        texts.insert(0, FAILED)
    if others:
        texts.append(PICTURES)
    content = "\n".join(texts)
    return {"role": "tool", "tool_call_id": call_id, "content": content}, others


def parts(block: Json, field: str, *, allowed: str) -> list[Json]:
    """Convert a block to parts: text, a picture or a document."""
    match block.get("type"):
        case "text":
            return [text_part(text(block, field))]
        case "image":
            return [picture(block.get("source"), f"{field}.source")]
        case "document":
            return document(block, field)
        case "search_result":
            return [text_part(search_result(block, field))]
    raise unknown(block, allowed, field)


def unknown(block: Json, allowed: str, field: str) -> RefusedError:
    """Return the error for a block of another type than those that are ``allowed``."""
    return refused(f"must be {allowed} ({tag(block.get('type'))})", f"{field}.type")


def tag(kind: Any) -> str:
    """Return a type that is not known here, in the words of Anthropic's API: Claude Code asks again
    without a feature whose type is named so.
    """
    return f"Input tag '{in_ascii(str(kind)[:MOST_OF_A_TYPE])}'"


def picture(source: Any, field: str) -> Json:
    """Convert the source of a picture: base64 or an address."""
    kind = source.get("type") if isinstance(source, dict) else None
    if kind == "base64":
        media, data = source.get("media_type"), source.get("data")
        if not isinstance(media, str) or not isinstance(data, str):
            raise refused("must have a media_type and data", field)
        url, where = f"data:{media};base64,{data}", f"{field}.data"
    elif kind == "url" and isinstance(source.get("url"), str):
        url, where = source["url"], f"{field}.url"
        if url.startswith("data:"):
            raise refused("must be an http(s) address", where)
    else:
        raise refused("must be base64 or url", f"{field}.type")
    return {"type": "image_url", "image_url": {"url": images.check(url, field=where)}}


def document(block: Json, field: str) -> list[Json]:
    """Convert a document: a file (base64, or of ``POST /files``), or its text and pictures."""
    source, where = block.get("source"), f"{field}.source"
    if not isinstance(source, dict):
        raise refused("must be an object", where)
    title = chat_messages.file_name(block.get("title"), f"{field}.title")
    kind = source.get("type")
    about = block.get("context")
    before = [text_part(chat_messages.text(about, f"{field}.context"))] if about else []
    if kind == "base64":
        return [*before, file_part(title, url=data_url(source, where))]
    if kind == "file" and is_public_id(source.get("file_id")):
        return [*before, file_part(title, upload=source["file_id"])]
    heading = text_part(f"[Document: {title}]" if title else "[Document]")
    if kind == "text":
        return [*before, heading, text_part(chat_messages.text(source.get("data"), where))]
    if kind == "content":
        inner: list[Json] = []
        for each, path in blocks(source.get("content"), f"{where}.content"):
            if each.get("type") not in ("text", "image"):
                raise refused("must be text or image", f"{path}.type")
            inner += parts(each, path, allowed="text or image")
        return [*before, heading, *inner]
    if kind == "url":
        raise refused("url is not supported: send the document as base64", f"{where}.type")
    raise refused("must be base64, text, content or the id of a file", f"{where}.type")


def data_url(source: Json, field: str) -> str:
    """Return the address of a document in base64."""
    media = source.get("media_type")
    if media not in ("application/pdf", "text/plain"):
        raise refused("must be application/pdf or text/plain", f"{field}.media_type")
    return chat_messages.data_url(f"data:{media};base64,{source.get('data')}", f"{field}.data")


def file_part(title: str, **given: str) -> Json:
    """Return a document as `chat_messages.take_files` expects it."""
    return {"type": "file", "file": {"kind": "file", **given, "name": title}}


def search_result(block: Json, field: str) -> str:
    title = chat_messages.text(block.get("title"), f"{field}.title")
    source = chat_messages.text(block.get("source"), f"{field}.source")
    said = [text(each, where) for each, where in blocks(block.get("content"), f"{field}.content")]
    return "\n".join([f"{title} ({source})", *said])


def text_part(said: str) -> Json:
    return {"type": "text", "text": said}


def joined(said: list[Json]) -> str | list[Json]:
    """Return text alone as one string, else the parts."""
    if all(each["type"] == "text" for each in said):
        return "\n".join(each["text"] for each in said)
    return said
