"""Approvals of tool calls: whether a call waits for a yes, and the record that keeps it from being
made twice (:mod:`core.conversations.tool_calls`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from core.conversations import tool_calls
from core.conversations.tool_calls import Asked, SignInWanted
from core.database.transactions import AWAY, patiently
from core.models import Run, ToolCall
from core.tools import phrases
from core.tools.base import Ask, Tool, ToolResult
from core.tools.mcp.oauth.pages import sign_in_page

logger = logging.getLogger(__name__)

State = ToolCall.State
FINISH_SECONDS = 4.0  # while the database is away
WAITS_FOR_OWNER = (
    "I have asked the owner whether I may use {0}. "
    "I go on when there is an answer; /stop takes the question back."
)
WAITS_FOR_PERSON = "May I use {0}?"
SIGN_IN = "Please sign in to {0} first, then I go on. /stop takes the question back."
OWNER_SIGNS_IN = "The owner has to sign in to {0} first; I have asked, and go on then."
DENIED = "The owner did not allow {0}."
EXPIRED = "There was no answer in time whether I may use {0}, so I did not use it."
UNSURE = "It is unsure whether {0} was carried out: no result came back. It was not repeated."
FOR_MODEL = {
    State.DENIED: "The call was not made: permission was refused. Do not try it again.",
    State.EXPIRED: "The call was not made: there was no answer whether it is allowed.",
    State.UNSURE: (
        "It is unsure whether this call happened: no result came back, or the gateway was "
        "interrupted. It was not repeated; do not repeat it. This was sent: {0}"
    ),
}
NO_SIGN_IN = "There was no sign-in for {0}, so I did not use it."
NOT_SIGNED_IN = {
    State.DENIED: "The call was not made: the sign-in that it needs was declined.",
    State.EXPIRED: "The call was not made: there was no sign-in for it in time.",
}
FOR_PERSON = {State.DENIED: DENIED, State.EXPIRED: EXPIRED, State.UNSURE: UNSURE}


@dataclass(slots=True)
class Approvals:
    """The questions and the recorded calls of one run's turn. ``rule``: when a tool asks in it.

    ``is_listed``: whether the sender is the person of the run, whose earlier yes holds for them,
    and not one of all those whom an open list lets in as this person; may block.
    """

    run: Run
    rule: Callable[[Tool], Ask]
    is_listed: Callable[[], bool] = lambda: True

    async def question(self, tool: Tool, call_id: str, arguments: str, cost: str) -> Asked | None:
        """Return the question that a call has to wait for; None when it needs no yes."""
        ask = self.rule(tool)
        if ask == "never":
            return None
        # A yes for longer holds where each call asks, too: it was given for that.
        granted = partial(tool_calls.is_granted, tool=tool.name, run=self.run)
        if await patiently(granted) and await patiently(self.is_listed):
            return None
        return Asked(call_id, tool.name, arguments, cost, of_person=tool.asks == "person")

    async def begin(self, tool: Tool, call_id: str, arguments: str) -> ToolCall:
        """Store that a call leaves now; see :func:`core.conversations.tool_calls.start`."""
        start = partial(
            tool_calls.start,
            run=self.run,
            call_id=call_id,
            tool=tool.name,
            arguments=arguments,
            idempotent=tool.idempotent,
        )
        return await patiently(start)

    async def end(self, row: ToolCall, result: ToolResult | None) -> None:
        """Store the result of a call that was made, again while the database is away: it counts
        where that stays away, too. None: there was none in time, and the call may have happened.
        """
        finish = partial(tool_calls.finish, call=row, result=result)
        try:
            await patiently(finish, seconds=FINISH_SECONDS)
        except AWAY:
            logger.warning("the end of the call %s could not be stored", row.public_id)
        if result is None:
            row.state = State.UNSURE


def waiting_lines(questions: Sequence[Asked]) -> Iterator[tuple[str, str]]:
    """Yield the sentences that say which questions were asked, each with an address or none."""
    asked = [each for each in questions if each.sign_in is None]
    if asked:
        names = ", ".join(dict.fromkeys(phrases.name_of(each.tool) for each in asked))
        of_owner = any(not each.of_person for each in asked)
        yield (WAITS_FOR_OWNER if of_owner else WAITS_FOR_PERSON).format(f"“{names}”"), ""
    for wanted in dict.fromkeys(each.sign_in for each in questions if each.sign_in is not None):
        line = OWNER_SIGNS_IN if wanted.of_gateway else SIGN_IN
        address = "" if wanted.of_gateway else sign_in_page(wanted.public_id)
        yield line.format(f"“{wanted.server}”"), address


def result_of(row: ToolCall) -> tuple[ToolResult, str]:
    """Return the result of a call that is not made (again), and the sentence for the person, with a
    place for the tool's name; empty for none.
    """
    if row.state == State.DONE:
        # The texts that the earlier attempt had shown were taken back.
        given = {"text": "", **(row.result or {})}
        wanted = given.pop("sign_in", None)
        return ToolResult(**given, sign_in=SignInWanted(**wanted) if wanted else None), ""
    if row.kind == ToolCall.Kind.SIGN_IN and row.state in NOT_SIGNED_IN:
        return ToolResult(NOT_SIGNED_IN[State(row.state)], ok=False), NO_SIGN_IN
    text = FOR_MODEL.get(State(row.state), FOR_MODEL[State.DENIED]).format(row.arguments[:2000])
    return ToolResult(text, ok=False), FOR_PERSON.get(State(row.state), DENIED)
