"""LangChain's ``ChatOpenAI``."""

from typing import Any

import common
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool as as_tool
from langchain_openai import ChatOpenAI


@as_tool
def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return common.weather(city)


def model(key: str = common.KEY, name: str = "default", base: str = common.GATEWAY) -> ChatOpenAI:
    return ChatOpenAI(model=name, base_url=f"{base}/v1", api_key=key, max_retries=0)


def stream() -> list[str]:
    return [piece for each in model().stream(common.COUNT) if (piece := str(each.content))]


def tool() -> str:
    asked: list[Any] = [HumanMessage(common.WEATHER)]
    bound = model().bind_tools([get_weather])
    call = bound.invoke(asked)
    result = get_weather.invoke(call.tool_calls[0]["args"])
    asked += [call, ToolMessage(result, tool_call_id=call.tool_calls[0]["id"])]
    return str(bound.invoke(asked).content)


def image() -> str:
    parts: list[Any] = [
        {"type": "text", "text": common.PICTURE},
        {"type": "image_url", "image_url": {"url": common.PIXEL}},
    ]
    return str(model().invoke([HumanMessage(parts)]).content)


def remember() -> str:
    said = model().invoke(common.MY_NAME)
    later = [HumanMessage(common.MY_NAME), AIMessage(said.content), HumanMessage(common.WHAT_NAME)]
    return str(model().invoke(later).content)


def stop() -> str:
    for each in model().stream(common.HANG):
        if each.content:
            return str(each.content)
    return ""


def cut() -> dict[str, Any]:
    pieces: list[str] = []
    try:
        pieces += [str(each.content) for each in model(base=common.CUT).stream(common.COUNT)]
    except Exception:  # noqa: BLE001 - the line is cut
        pieces.append("")
    return {"again": str(model(base=common.CUT).invoke(common.COUNT).content)}


common.main(
    {
        "first": lambda: str(model().invoke(common.HELLO).content),
        "stream": stream,
        "tool": tool,
        "image": image,
        "remember": remember,
        "stop": stop,
        "cut": cut,
        "revoked": lambda: str(model(common.REVOKED).invoke(common.HELLO).content),
        "budget": lambda: str(model(common.POOR).invoke(common.HELLO).content),
        "down": lambda: str(model(name=common.DOWN).invoke(common.HELLO).content),
    }
)
