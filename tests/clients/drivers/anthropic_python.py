"""The official Python client of Anthropic."""

from contextlib import suppress
from typing import Any

import anthropic
import common

TOOLS: Any = [
    {
        "name": "get_weather",
        "description": "The weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]


def client(key: str = common.KEY, base: str = common.GATEWAY) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=base, auth_token=key, api_key=None, max_retries=0)


def body(*said: Any, **more: Any) -> Any:
    messages = [{"role": "user", "content": said[0]}, *said[1:]]
    return {"model": "default", "max_tokens": 1000, "messages": messages, **more}


def ask(*said: Any, key: str = common.KEY, **more: Any) -> Any:
    return client(key).messages.create(**body(*said, **more))


def text(answer: Any) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")


def stream() -> list[str]:
    with client().messages.stream(**body(common.COUNT)) as events:
        return list(events.text_stream)


def tool() -> str:
    first = ask(common.WEATHER, tools=TOOLS)
    [call] = [block for block in first.content if block.type == "tool_use"]
    result = {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": common.weather(**call.input),
    }
    said = {"role": "assistant", "content": first.content}
    return text(ask(common.WEATHER, said, {"role": "user", "content": [result]}, tools=TOOLS))


def image() -> str:
    data = common.PIXEL.partition(",")[2]
    source = {"type": "base64", "media_type": "image/png", "data": data}
    parts = [{"type": "text", "text": common.PICTURE}, {"type": "image", "source": source}]
    return text(ask(parts))


def remember() -> str:
    said = {"role": "assistant", "content": text(ask(common.MY_NAME))}
    return text(ask(common.MY_NAME, said, {"role": "user", "content": common.WHAT_NAME}))


def raw(base: str, said: str, headers: dict[str, str]) -> Any:
    more: Any = {"stream": True, "extra_headers": headers}
    return client(base=base).messages.with_streaming_response.create(**body(said), **more)


def stop() -> dict[str, str]:
    with raw(common.GATEWAY, common.HANG, {}) as answer:
        next(answer.iter_lines())
        return {"run": answer.headers["request-id"].removeprefix("req_")}


def cut() -> dict[str, Any]:
    keep = {"Idempotency-Key": "cut-anthropic"}
    runs: list[str] = []
    with suppress(Exception), raw(common.CUT, common.COUNT, keep) as answer:
        runs.append(answer.headers["request-id"])
        list(answer.iter_lines())
    with raw(common.CUT, common.COUNT, keep) as answer:
        runs.append(answer.headers["request-id"])
    with client().messages.stream(**body(common.COUNT), extra_headers=keep) as events:
        return {"runs": runs, "text": events.get_final_text()}


common.main(
    {
        "first": lambda: text(ask(common.HELLO)),
        "stream": stream,
        "tool": tool,
        "image": image,
        "remember": remember,
        "stop": stop,
        "cut": cut,
        "revoked": lambda: text(ask(common.HELLO, key=common.REVOKED)),
        "budget": lambda: text(ask(common.HELLO, key=common.POOR)),
        "down": lambda: text(ask(common.HELLO, model=common.DOWN)),
    }
)
