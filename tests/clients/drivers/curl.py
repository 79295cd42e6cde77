"""``curl`` at ``/v1/chat/completions``."""

import json
import re
import subprocess
import sys
from typing import Any

import common

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]


def post(
    body: Any, *more: str, key: str = common.KEY, base: str = common.GATEWAY, seconds: str = "60"
) -> str:
    command = [
        *("curl", "-sS", "-N", "--max-time", seconds, f"{base}/v1/chat/completions"),
        *("-H", f"Authorization: Bearer {key}", "-H", "Content-Type: application/json"),
        *("-d", json.dumps({"model": "default", **body}), *more),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    return done.stdout


def user(content: Any) -> Any:
    return {"role": "user", "content": content}


def message(*messages: Any, key: str = common.KEY, **more: Any) -> Any:
    answer = json.loads(post({"messages": messages, **more}, key=key))
    if "error" in answer:
        raise RuntimeError(answer["error"]["message"])
    return answer["choices"][0]["message"]


def pieces(stream: str) -> list[str]:
    lines = [line[6:] for line in stream.splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]
    return [piece for delta in deltas if (piece := delta.get("content"))]


def tool() -> str:
    asked = user(common.WEATHER)
    said = message(asked, tools=TOOLS)
    [call] = said["tool_calls"]
    content = common.weather(**json.loads(call["function"]["arguments"]))
    result = {"role": "tool", "tool_call_id": call["id"], "content": content}
    return str(message(asked, said, result, tools=TOOLS)["content"])


def image() -> str:
    picture = {"type": "image_url", "image_url": {"url": common.PIXEL}}
    return str(message(user([{"type": "text", "text": common.PICTURE}, picture]))["content"])


def remember() -> str:
    asked = user(common.MY_NAME)
    said = {"role": "assistant", "content": message(asked)["content"]}
    return str(message(asked, said, user(common.WHAT_NAME))["content"])


def stop() -> dict[str, str]:
    body = {"messages": [user(common.HANG)], "stream": True}
    head = post(body, "-D", "-", seconds="4")
    return {"run": re.findall(r"(?im)^x-request-id: (\S+)", head)[0]}


def cut() -> dict[str, Any]:
    body = {"messages": [user(common.COUNT)], "stream": True}
    keep = ("-D", "-", "-H", "Idempotency-Key: cut-curl")
    first = post(body, *keep, base=common.CUT)
    last = re.findall(r"(?m)^id: (\d+)", first)[-1]
    rest = post(body, *keep, "-H", f"Last-Event-ID: {last}", base=common.CUT)
    runs = re.findall(r"(?im)^x-request-id: (\S+)", first + rest)
    return {"runs": runs, "text": "".join(pieces(first) + pieces(rest)), "whole": 1}


common.main(
    {
        "first": lambda: message(user(common.HELLO))["content"],
        "stream": lambda: pieces(post({"messages": [user(common.COUNT)], "stream": True})),
        "tool": tool,
        "image": image,
        "remember": remember,
        "stop": stop,
        "cut": cut,
        "revoked": lambda: message(user(common.HELLO), key=common.REVOKED),
        "budget": lambda: message(user(common.HELLO), key=common.POOR),
        "down": lambda: message(user(common.HELLO), model=common.DOWN),
    }
)
