"""The agent: model, tools, model again, until there is an answer.

    ask model ──text──► emit ──finish, no tool──► done
        ▲  └──tool calls──► run tools ──results──┐
        └────────────────────────────────────────┘   at most AGENT_MAX_STEPS times

A tool's result may be the final answer: then the model is not asked again. Calls that an earlier
attempt began come first (``resumed``), so that their results are reused. When the model fails to
call a tool, ``fallback`` supplies the call ([L3]). Calls that need a yes end the turn with
``questions``, and so do calls that need a sign-in first; another run goes on with what is ``kept``
of it (decisions 194 and 199).

A turn keeps its output: a cancelled one is answered with the part that exists.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import Any

import orjson
from django.conf import settings

from core.agent import fallback
from core.agent.approvals import Approvals, result_of, waiting_lines
from core.agent.calling import (
    Call,
    Calls,
    arguments_of,
    last_calls,
    message_of,
    result_within,
    side_by_side,
)
from core.agent.calls import calls_of, ids_of_calls
from core.agent.output import Output
from core.agent.prompt import SHORTENED, Prompt, tools_tokens
from core.conversations.tool_calls import Asked, SignInWanted
from core.lib.text import clean
from core.messages import (
    Message,
    error_message,
    loading_message,
    progress,
    tool_call_message,
    tool_end,
)
from core.models import ToolCall
from core.providers.base import (
    LIMITS,
    ChatMessage,
    Delay,
    Delta,
    Finish,
    ModelRequest,
    Provider,
    ProviderError,
    Restart,
    SealedDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Whole,
    most_bytes,
    size_of,
)
from core.providers.catalogue import ModelInfo
from core.providers.failures import Failure
from core.tools import languages, phrases, registry
from core.tools.base import Tool, ToolContext, ToolResult

TOOL_TEXT_CHARACTERS = 50_000
TOOLS_SHARE = 0.65  # of a window, for the descriptions of tools
MOST_TOOLS = 128  # of one request: OpenAI's API, and others that follow it, refuse more
MOST_QUESTIONS = 10  # of one answer: each is a message to who decides
TOO_MANY_QUESTIONS = (
    "The call was not made: it needs a yes, and too many were asked for at once. Ask for fewer."
)
CUT_CALL = (
    "The call was not made: it was cut at the longest answer. Write less before it, or make it "
    "with shorter arguments."
)
MOST_SEALED = 32  # pieces of an answer
CUT_HERE = "The answer was cut here: it is longer than this gateway allows."
ENDS_HERE = (
    "The answer ends here because the model has reached its longest answer. Write “go on” for the "
    "rest."
)


@dataclass(slots=True)
class Turn:
    """One turn of the assistant. ``emit`` adds to the run's event log.

    ``messages``: for the model; the turn's own calls and results come last. ``prompt`` cuts the
    earlier ones to the window of the model that is asked. ``is_first_cut``: whether to tell the
    person that the history was cut, once in a conversation. ``has_own_limit``: a limit among the
    ``options`` is the client's, not the assistant's. ``is_read``: a person reads the answer, and is
    told of a limit that ended it; programs get the reason. ``tools``: the gateway's tools by name;
    None for all. ``kept``: the messages of a paused run, whose ``allowed`` calls come first.
    Without ``approvals`` no call asks.
    """

    messages: list[ChatMessage]
    provider: Provider
    emit: InitVar[Callable[[Message], None]]
    context: ToolContext
    client_tools: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    has_own_limit: bool = True
    is_read: bool = False
    resumed: list[Call] = field(default_factory=list)
    can_call: bool = True
    prompt: Prompt | None = None
    is_first_cut: Callable[[], Awaitable[bool]] | None = None
    tools: Mapping[str, Tool] | None = None
    approvals: Approvals | None = None
    kept: list[ChatMessage] = field(default_factory=list)
    allowed: list[Call] = field(default_factory=list)
    # The results of the turn.
    output: Output = field(init=False)
    questions: list[Asked] = field(default_factory=list)
    files: list[dict[str, str]] = field(default_factory=list)
    finish_reason: str = "stop"
    stop_sequence: str = ""
    answered: bool = False
    answered_by: str = ""
    # The index of the first message that the turn has added.
    _own_from: int = 0
    # Whether a tool has shown its result to the person itself.
    _was_shown: bool = False
    # Of the last answer: its bytes, at most, and those that are left; its reasoning.
    _most_bytes: int = 0
    _bytes_left: int = 0
    _thoughts: list[str] = field(default_factory=list)
    _sealed: list[str] = field(default_factory=list)

    def __post_init__(self, emit: Callable[[Message], None]) -> None:
        self.output = Output(emit)
        self._own_from = len(self.messages)
        self.messages += self.kept

    def begin_with(self, prompt: Prompt) -> None:
        """Replace the messages before those that the turn adds: its pictures are known now."""
        self.messages[: self._own_from] = prompt.messages
        self._own_from = len(prompt.messages)
        self.prompt = prompt

    async def run(self) -> None:
        """Run the loop until the answer is complete. Raises ProviderError."""
        if self.allowed and await self._resume_paused():
            return
        first = self.resumed or ([] if self.allowed else self._inferred_call())
        if first and await self._carry_out(first, []):
            return
        for _ in range(settings.AGENT_MAX_STEPS):
            said = len(self.output.texts)
            calls = await self._ask_with_patience() or self._missing_call(said)
            if not calls:
                self._leave_links()
                return
            if theirs := [call for call in calls if call.name in self._client_names()]:
                self._hand_over(theirs)
                return
            if await self._carry_out(calls, self.output.texts[said:]):
                return
        raise ProviderError("The assistant needed too many steps.", code="steps")

    def fail(self, error: ProviderError) -> None:
        """Emit the failure; earlier output stays."""
        self.output.end_message()
        self.output.whole(error_message(str(error), error.code, message_id="error"))

    def made_calls(self) -> list[dict[str, str]]:
        """Return the calls of this turn, as they are stored with the answer."""
        return calls_of(self.messages, self._own_from, answer="\n".join(self.output.texts))

    def added(self) -> list[ChatMessage]:
        """Return the messages that the turn has added, those of the paused run included."""
        return self.messages[self._own_from :]

    async def _resume_paused(self) -> bool:
        """Make the calls of the paused run that were decided; return whether the turn is over."""
        before = len(self.messages)
        results = await self._act_on(self.allowed)
        in_order = [each["id"] for each in last_calls(self.kept)]
        made = self.messages[before:]
        del self.messages[before:]
        while self.messages[-1]["role"] == "tool":
            made.append(self.messages.pop())
        self.messages += sorted(made, key=lambda each: in_order.index(each["tool_call_id"]))
        return self._conclude(results)

    async def _carry_out(self, calls: list[Call], texts: list[str]) -> bool:
        """Run the tools; return whether the turn is over: with an answer, or a question."""
        self.messages.append(message_of(calls, texts, thoughts=self._thoughts, sealed=self._sealed))
        # One that an earlier attempt began has its yes, or needed none.
        asked = {
            call.id: None if call in self.resumed else await self._question(call) for call in calls
        }
        questions = [each for each in asked.values() if each is not None]
        self.questions = questions[:MOST_QUESTIONS]
        results = await self._act_on([call for call in calls if asked[call.id] is None])
        left_out = {each.call_id for each in questions[MOST_QUESTIONS:]}
        for call in calls:
            if call.id in left_out:
                self._keep(call, ToolResult(TOO_MANY_QUESTIONS, ok=False))
        return self._conclude(results)

    async def _question(self, call: Call) -> Asked | None:
        tool, arguments = self._tool(call.name), self._arguments(call)
        if self.approvals is None or tool is None or isinstance(arguments, str):
            return None
        return await self.approvals.question(
            tool, call.id, call.arguments, clean(tool.cost(arguments))
        )

    def _conclude(self, results: list[ToolResult]) -> bool:
        """Tell the person which calls need a yes; return whether the turn is over."""
        if not self.questions:
            return all(result.final for result in results)
        self._leave_links()
        for line, address in waiting_lines(self.questions):
            said = self._in_their_language(line)
            self.output.note(f"{said}\n{address}" if address else said)
        return True

    def _in_their_language(self, line: str) -> str:
        """Return a sentence of the gateway in the language of the request."""
        return phrases.in_language(line, languages.of_request(self.context.request))

    def _leave_links(self) -> None:
        """Append links to created files that the model left out."""
        said = "\n".join(self.output.texts)
        for file in self.files:
            if file.get("url") and file["url"] not in said:
                self.output.note(file["url"])

    def _hand_over(self, calls: list[Call]) -> None:
        for number, call in enumerate(calls):
            self._show_call(call, message_id=f"client-tool-{number}")
        if self.finish_reason != "length":  # then the arguments of the last one may be cut
            self.finish_reason = "tool_calls"

    def _inferred_call(self) -> list[Call]:
        """Return a clearly requested call, for a model that calls no tools."""
        if self.can_call or not self._may_infer():
            return []
        return self._named(fallback.inferred(self._own_tools(), self.context.request))

    def _missing_call(self, said: int) -> list[Call]:
        """Return the call that the model should have made ([L3])."""
        if ids_of_calls(self.added()) or self.finish_reason != "stop" or not self._may_infer():
            return []
        text = "\n\n".join(self.output.texts[said:])
        written = fallback.written_call(text, self._own_tools())
        if written is not None:
            self.output.take_back(said)
            return self._named(written)
        if not fallback.is_promise(text):
            return []
        wanted = fallback.inferred(self._own_tools(), self.context.request)
        if wanted is not None:  # the answer replaces its announcement
            self.output.take_back(said)
        return self._named(wanted)

    def _may_infer(self) -> bool:
        """Return whether calls may be inferred: not for a client with tools of its own."""
        return not self.client_tools and "tool_choice" not in self.options

    def _named(self, wanted: fallback.Wanted | None) -> list[Call]:
        if wanted is None:
            return []
        arguments = orjson.dumps(wanted.arguments).decode()
        return self._with_ids([Call(id="inferred", name=wanted.name, arguments=arguments)])

    async def _ask_with_patience(self) -> list[Call]:
        """Return the model's calls; repeats the request once after an empty answer."""
        for is_last in (False, True):
            said, whole = len(self.output.texts), self.output.counts.get("whole", 0)
            calls = await self._ask()
            if calls or self._said_anything(said, whole):
                self.answered = True
                is_limited = self.finish_reason == "length" and self._bytes_left >= 0
                if self.is_read and is_limited and not calls:
                    self._note_end(ENDS_HERE)
                return calls
            if self.finish_reason == "content_filter":
                raise ProviderError.of(Failure("content"))
            if not is_last:
                self.output.retry("The model gave an empty answer. Asking again…")
        if self.files or self._was_shown:
            return []
        raise ProviderError.of(Failure("length" if self.finish_reason == "length" else "empty"))

    def _said_anything(self, said: int, whole: int) -> bool:
        """Return whether the last answer has content, or may lack it by the client's options."""
        is_limited = self.has_own_limit and bool(LIMITS & self.options.keys())
        is_limited = is_limited and self.finish_reason == "length"
        if is_limited or self.options.get("stop"):
            return True
        has_text = any(text.strip() for text in self.output.texts[said:])
        return has_text or self.output.counts.get("whole", 0) > whole

    async def _ask(self) -> list[Call]:
        request = ModelRequest(self.messages, self._tools(), options=self.options)
        calls, self._thoughts, self._sealed = Calls(), [], []
        before = dict(self.output.counts)
        self._most_bytes = self._bytes_left = most_bytes(self.options)
        async with aclosing(self.provider.stream(request)) as stream:
            async for delta in stream:
                if self.prompt is not None and self.prompt.left_out:
                    await self._tell_cut(self.prompt)
                if isinstance(delta, Restart):
                    self._start_over(before, calls)
                self._take(delta, calls)
                if self._bytes_left < 0:
                    self._cut(calls)
                    break
        self.output.end_message()
        return self._with_ids(calls.whole())

    async def _tell_cut(self, prompt: Prompt) -> None:
        """Tell the person, once in a conversation, that old messages are left out."""
        prompt.left_out = 0
        is_first, self.is_first_cut = self.is_first_cut, None
        if is_first is not None and await is_first():
            self.output.end_message()
            line = self._in_their_language(SHORTENED)
            self.output.whole(loading_message(line, message_id="shortened"))

    def _take(self, delta: Delta, calls: Calls) -> None:
        match delta:
            case TextDelta():
                self.output.say("text", self._fitting(delta.text))
            case ThinkingDelta():
                thought = self._fitting(delta.text)
                self._thoughts.append(thought)
                self.output.say("thinking", thought)
            case SealedDelta():
                self._sealed = [*self._sealed[1 - MOST_SEALED :], delta.text]
            case ToolCallDelta():
                calls.take(delta)
                self._bytes_left -= size_of(delta)
            case Whole():
                self.output.pass_on(delta.message)
            case Delay():
                self.output.end_message()
                self.output.retry(delta.line)
            case Finish():
                self.finish_reason = delta.reason
                asked = self.options.get("stop")
                is_asked = delta.stop_sequence in (asked if isinstance(asked, list) else [asked])
                self.stop_sequence = delta.stop_sequence if is_asked else ""

    def _fitting(self, text: str) -> str:
        """Return as much of ``text`` as fits the answer's limit."""
        text = clean(text)
        size = len(text.encode())
        if size > self._bytes_left:
            text = text.encode()[: self._bytes_left].decode(errors="ignore")
        self._bytes_left -= size
        return text

    def _start_over(self, before: dict[str, int], calls: Calls) -> None:
        """Take back what this answer has shown: it begins again, with the same message ids."""
        self.output.start_over(before)
        self._thoughts.clear()
        self._sealed.clear()
        calls.clear()
        self._bytes_left = self._most_bytes

    def _cut(self, calls: Calls) -> None:
        """End an answer that is too long; its calls may be incomplete and are dropped."""
        calls.clear()
        self.output.end_message()
        self._note_end(CUT_HERE)
        self.finish_reason = "length"

    def _note_end(self, line: str) -> None:
        """Emit the reason why an answer ends, in the language of the request."""
        self.output.note(f"*{self._in_their_language(line)}*")

    def _with_ids(self, calls: list[Call]) -> list[Call]:
        """Make the ids of an answer's calls unique in the conversation: servers repeat them."""
        taken = ids_of_calls(self.messages)
        for call in calls:
            wanted = call.id or "call"
            call.id, number = wanted, 1
            while call.id in taken:
                number += 1
                call.id = f"{wanted}-{number}"
            taken.add(call.id)
        return calls

    def fitted(self, request: ModelRequest, model: ModelInfo) -> ModelRequest:
        """Return a request that fits the window of this model. Raises ProviderError."""
        self._most_bytes = self._bytes_left = most_bytes(self.options, window=model.context_tokens)
        if self.prompt is None:
            return request
        tools, tokens = self._fitting_tools(request.tools, model)
        added = request.messages[self._own_from :]
        messages = self.prompt.fitted(model, tokens, added=added)
        return replace(request, messages=messages, tools=tools)

    def _fitting_tools(
        self, tools: list[dict[str, Any]], model: ModelInfo
    ) -> tuple[list[dict[str, Any]], int]:
        """Return the tools that leave a part of a small window to the conversation, at most
        MOST_TOOLS, and their tokens: of the gateway's the last ones are left out, a client's stay.
        """
        own = tools[: len(tools) - len(self.client_tools)]
        own = own[: max(0, MOST_TOOLS - len(self.client_tools))]
        most = model.context_tokens * TOOLS_SHARE

        def tokens_of(count: int) -> int:
            return tools_tokens([*own[:count], *self.client_tools])

        tokens = tokens_of(len(own))
        if tokens > most:
            own = own[: bisect_right(range(1, len(own) + 1), most, key=tokens_of)]
            tokens = tokens_of(len(own))
        return [*own, *self.client_tools], tokens

    def _tools(self) -> list[dict[str, Any]]:
        """Return the tools to offer. A client that forces a call gets its own tools only."""
        if "tool_choice" in self.options:
            return self.client_tools
        theirs = self._client_names()
        own = [registry.schema(each) for each in self._own_tools() if each.name not in theirs]
        return own + self.client_tools

    def _own_tools(self) -> list[Tool]:
        """Return the gateway's tools that the turn may use."""
        return registry.every() if self.tools is None else [*self.tools.values()]

    def _tool(self, name: str) -> Tool | None:
        """Return the gateway's tool with this name, if the turn may use it."""
        return registry.get(name) if self.tools is None else self.tools.get(name)

    def _client_names(self) -> set[str]:
        return {tool["function"]["name"] for tool in self.client_tools}

    async def _act_on(self, calls: list[Call]) -> list[ToolResult]:
        """Make calls side by side; show and keep their results in the order of the calls."""
        results = await side_by_side([partial(self._act, call) for call in calls])
        for call, result in zip(calls, results, strict=True):
            if wanted := self._waits_for(result):
                self._wait_for_sign_in(call, wanted)
            else:
                self._keep(call, result)
        return results

    def _show_call(self, call: Call, *, message_id: str) -> None:
        shown = tool_call_message(call.id, call.name, call.arguments, message_id=message_id)
        self.output.whole(shown)

    async def _act(self, call: Call) -> ToolResult:
        self._show_call(call, message_id=f"tool-{call.id}")
        result = await self._result(call)
        waits = self._waits_for(result) is not None
        self.output.emit(tool_end(call_id=call.id, name=call.name, ok=result.ok, waits=waits))
        return result

    async def _result(self, call: Call) -> ToolResult:
        tool = self._tool(call.name)
        if tool is None:
            return ToolResult(f"There is no tool called {call.name}.", ok=False)
        arguments = self._arguments(call)
        if isinstance(arguments, str):
            return ToolResult(arguments, ok=False)
        was_allowed = any(each.id == call.id for each in self.allowed)
        is_recorded = tool.recorded or not tool.idempotent or was_allowed
        if self.approvals is None or not is_recorded:
            return await self._run_tool(tool, call, arguments) or too_late(tool)
        return await self._recorded(self.approvals, tool, call, arguments)

    def _arguments(self, call: Call) -> dict[str, Any] | str:
        """Return the arguments of a call, or what is wrong with them: a limit may have cut them."""
        arguments = arguments_of(call)
        is_broken = isinstance(arguments, str) or not arguments
        return CUT_CALL if is_broken and self.finish_reason == "length" else arguments

    async def _recorded(
        self, approvals: Approvals, tool: Tool, call: Call, arguments: dict[str, Any]
    ) -> ToolResult:
        """Make a call that is recorded, unless it was denied, is over, or may have happened."""
        row = await approvals.begin(tool, call.id, call.arguments)
        if row.state == ToolCall.State.STARTED:
            result = await self._run_tool(tool, call, arguments)
            if result is None and tool.idempotent:
                result = too_late(tool)
            await approvals.end(row, result)
            if result is not None:
                return result
        result, line = result_of(row)
        if not line:
            return result
        return replace(
            result, shown=self._in_their_language(line.format(f"“{phrases.name_of(tool.name)}”"))
        )

    async def _run_tool(
        self, tool: Tool, call: Call, arguments: dict[str, Any]
    ) -> ToolResult | None:
        """Show the line of a call, and make it; None when there was no result in time."""
        line = tool.progress(arguments)
        if line:
            self.output.emit(progress(self._in_their_language(line), tool=tool.name))
        return await result_within(tool, arguments, replace(self.context, tool_call_id=call.id))

    def _waits_for(self, result: ToolResult) -> SignInWanted | None:
        """Return the sign-in after which a call is made that was not made now."""
        return None if self.approvals is None else result.sign_in

    def _wait_for_sign_in(self, call: Call, wanted: SignInWanted) -> None:
        """Add the question of a call that was not made; one sign-in a server is enough."""
        others = (each.sign_in for each in self.questions if each.sign_in is not None)
        known = next((each for each in others if each.server_id == wanted.server_id), wanted)
        of_person = not wanted.of_gateway
        self.questions.append(
            Asked(call.id, call.name, call.arguments, of_person=of_person, sign_in=known)
        )

    def _keep(self, call: Call, result: ToolResult) -> None:
        """Add a result to the messages for the model, and show the person what is theirs."""
        self.files += result.files
        self.messages.append(
            {"role": "tool", "tool_call_id": call.id, "content": result.text[:TOOL_TEXT_CHARACTERS]}
        )
        if result.final and result.text:
            self._bytes_left = settings.MAX_ANSWER_BYTES
            self.output.note(self._fitting(clean(result.text)))
        if result.shown:
            self.output.note(result.shown)
            self._was_shown = True
        for message in result.messages:
            self.context.send(message)


def too_late(tool: Tool) -> ToolResult:
    """Return the result of a call that had none in time."""
    within = f"within {tool.seconds:g} s" if tool.seconds else "in time"
    return ToolResult(f"Error: no result {within}.", ok=False)
