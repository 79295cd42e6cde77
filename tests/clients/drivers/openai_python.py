"""The official Python client of OpenAI."""

import json
from contextlib import suppress
from typing import Any

import common
import openai

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]


def client(key: str = common.KEY, base: str = common.GATEWAY) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0)


def ask(*said: Any, key: str = common.KEY, model: str = "default", **more: Any) -> Any:
    messages: Any = [{"role": "user", "content": said[0]}, *said[1:]]
    return client(key).chat.completions.create(model=model, messages=messages, **more)


def text(answer: Any) -> str:
    return answer.choices[0].message.content or ""


def stream() -> list[str]:
    chunks = ask(common.COUNT, stream=True)
    return [piece for each in chunks if (piece := each.choices[0].delta.content)]


def tool() -> str:
    first = ask(common.WEATHER, tools=TOOLS).choices[0].message
    [call] = first.tool_calls
    result = common.weather(**json.loads(call.function.arguments))
    answered = {"role": "tool", "tool_call_id": call.id, "content": result}
    return text(ask(common.WEATHER, first, answered, tools=TOOLS))


def image() -> str:
    parts = [
        {"type": "text", "text": common.PICTURE},
        {"type": "image_url", "image_url": {"url": common.PIXEL}},
    ]
    return text(ask(parts))


def remember() -> str:
    said = text(ask(common.MY_NAME))
    later = [{"role": "assistant", "content": said}, {"role": "user", "content": common.WHAT_NAME}]
    return text(ask(common.MY_NAME, *later))


def raw(base: str, text: str, headers: dict[str, str]) -> Any:
    return client(base=base).chat.completions.with_streaming_response.create(
        model="default",
        messages=[{"role": "user", "content": text}],
        stream=True,
        extra_headers=headers,
    )


def stop() -> dict[str, str]:
    with raw(common.GATEWAY, common.HANG, {}) as answer:
        next(answer.iter_lines())
        return {"run": answer.headers["x-request-id"]}


def cut() -> dict[str, Any]:
    keep = {"Idempotency-Key": "cut"}
    runs, text = [], ""
    with suppress(Exception), raw(common.CUT, common.COUNT, keep) as answer:
        runs.append(answer.headers["x-request-id"])
        list(answer.iter_lines())
    with raw(common.CUT, common.COUNT, keep) as answer:
        runs.append(answer.headers["x-request-id"])
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    return {"runs": runs, "text": text}


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
