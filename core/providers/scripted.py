"""A model that plays a script: for tests, demos and trying a client without a model.

The script is a JSON file (``LLM_SCRIPT``): a list of rules ``{"match": regex, "steps": [...]}``.
The first whose ``match`` is found in the last user message is played; a rule with ``"after_tool":
true`` only when the last message is a tool's result, with the name of a tool in place of ``true``
only when it is that tool's. Steps: ``{"text": "…", "tokens_per_second":
n?}``, ``{"thinking": "…"}``, ``{"sleep": seconds}``, ``{"tool": "name", "arguments": {…}}``,
``{"native": {"type": …, "props": …}}`` (a message of the protocol, unchanged), ``{"error": code,
"message": "…"?, "retry_after": s?, "reason": "…"?}``, ``{"hang": true}``. ``{input}`` in a text is
replaced by the last user message. Without a script it repeats the last user message.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import orjson

from core.messages import from_dict
from core.providers.base import (
    ChatMessage,
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
    Whole,
)
from core.providers.failures import KINDS, OWN

Rule = dict[str, Any]
ECHO: Rule = {"match": "", "steps": [{"text": "{input}"}]}
WORDS = re.compile(r"\S+\s*|\s+")


class Scripted:
    """Play rules; ``calls`` counts the answers."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = [*rules, ECHO]
        self.calls = 0

    @classmethod
    def from_file(cls, path: str) -> "Scripted":
        """Load the JSON file ``path``; no path: an echo. Raises ProviderError."""
        if not path:
            return cls([])
        try:
            rules = orjson.loads(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            raise ProviderError("LLM_SCRIPT cannot be read.", code="setup") from error
        if not (isinstance(rules, list) and all(is_rule(rule) for rule in rules)):
            raise ProviderError("LLM_SCRIPT is not a list of rules.", code="setup")
        return cls(rules)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.calls += 1
        said = last_text(request.messages)
        produced = 0
        tools = 0
        for step in self._steps(request.messages, said):
            await pause(step)
            for delta in played(step, said, tools):
                yield delta
                produced += 1
                if "tokens_per_second" in step:
                    await asyncio.sleep(1 / step["tokens_per_second"])
            tools += "tool" in step
        yield Usage(sum(len(str(m.get("content"))) // 4 for m in request.messages), produced)
        yield Finish("tool_calls" if tools else "stop")

    async def close(self) -> None: ...

    def _steps(self, messages: list[ChatMessage], said: str) -> list[dict[str, Any]]:
        last = last_tool(messages)
        for rule in self._rules:
            after = rule.get("after_tool")
            is_other = isinstance(after, str) and after != last
            if rule is not ECHO and (bool(after) != bool(last) or is_other):
                continue
            if re.search(rule["match"], said):
                return list(rule["steps"])
        return list(ECHO["steps"])


def is_rule(rule: object) -> bool:
    """Return whether ``rule`` has a pattern and steps."""
    if not (isinstance(rule, dict) and isinstance(rule.get("steps"), list)):
        return False
    try:
        re.compile(rule["match"])
    except (KeyError, TypeError, re.error):
        return False
    return True


def last_tool(messages: list[ChatMessage]) -> str:
    """Return the name of the tool whose result is the last message; empty for any other message."""
    if messages[-1]["role"] != "tool":
        return ""
    names: dict[str, str] = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    return names.get(messages[-1].get("tool_call_id", ""), "?")


def last_text(messages: list[ChatMessage]) -> str:
    for message in reversed(messages):
        if message["role"] == "user":
            content = message["content"]
            if isinstance(content, str):
                return content
            return "\n".join(part.get("text", "") for part in content)
    return ""


async def pause(step: dict[str, Any]) -> None:
    """Wait, hang or fail according to ``step``."""
    if "sleep" in step:
        await asyncio.sleep(step["sleep"])
    if step.get("hang"):
        await asyncio.Event().wait()
    if "error" in step:
        raise ProviderError(
            step.get("message") or KINDS.get(step["error"], OWN).person,
            code=step["error"],
            retry_after=step.get("retry_after"),
            reason=step.get("reason", ""),
        )


def played(step: dict[str, Any], said: str, tools: int) -> Iterator[Delta]:
    if "thinking" in step:
        yield ThinkingDelta(step["thinking"])
    if "text" in step:
        text = step["text"].replace("{input}", said)
        for word in WORDS.findall(text):
            yield TextDelta(word)
    if "native" in step:
        yield Whole(from_dict(step["native"]))
    if "tool" in step:
        arguments = orjson.dumps(step.get("arguments", {})).decode()
        yield ToolCallDelta(index=tools, id=f"call_{tools}", name=step["tool"])
        yield ToolCallDelta(index=tools, arguments=arguments)
