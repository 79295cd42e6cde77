"""Approvals: when a call waits for a yes, and what is told of one that is not made."""

from typing import Any, Literal

import pytest
from django.db import OperationalError

from core.agent import approvals
from core.agent.approvals import Approvals, result_of, waiting_lines
from core.conversations import tool_calls
from core.conversations.tool_calls import Asked, SignInWanted
from core.database import transactions
from core.database.transactions import in_thread
from core.models import ChannelAccount, ChatSession, Run, ToolCall, ToolGrant, User
from core.tools.base import Ask, Tool, ToolContext, ToolResult
from core.tools.mcp.oauth.pages import sign_in_page

pytestmark = pytest.mark.django_db(transaction=True)
State = ToolCall.State
TO_BOB = '{"to":"bob"}'


class Send(Tool):
    """A tool with an effect."""

    name = "send"
    description = "Sends."
    parameters: dict[str, Any] = {}
    asks: Literal["owner", "person"] = "owner"
    idempotent = False

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        raise NotImplementedError


@pytest.fixture
def run(db: None) -> Run:
    """Return a run that a worker holds."""
    user = User.objects.create(username="ada")
    account = ChannelAccount.objects.create(channel="platform", name="main")
    session = ChatSession.objects.create(user=user, account=account, chat="42")
    return Run.objects.create(session=session, user=user, state="running", attempt=1)


def approvals_of(run: Run, ask: Ask = "always", *, listed: bool = True) -> Approvals:
    """Return the approvals of a run in which tools ask so."""
    return Approvals(run, lambda tool: ask if tool.name == "send" else "never", lambda: listed)


@pytest.mark.parametrize(
    ("ask", "granted", "listed", "waits"),
    [
        ("never", False, True, False),
        ("never", False, False, False),
        ("always", False, True, True),
        ("first", False, True, True),
        ("always", True, True, False),
        ("first", True, True, False),
        ("always", True, False, True),
        ("first", True, False, True),
    ],
)
async def test_a_call_waits_unless_it_needs_no_yes_or_the_sender_has_one(
    run: Run, ask: Ask, granted: bool, listed: bool, waits: bool
) -> None:
    """A yes to the person is not that of those whom an open list lets in."""
    if granted:
        await in_thread(lambda: ToolGrant.objects.create(tool="send", user=run.user))
    of_run = approvals_of(run, ask, listed=listed)
    found = await of_run.question(Send(), "c1", TO_BOB, "1 €")
    assert found == (Asked("c1", "send", TO_BOB, "1 €") if waits else None)


async def test_a_yes_for_one_tool_is_none_for_another(run: Run) -> None:
    await in_thread(lambda: ToolGrant.objects.create(tool="other", user=run.user))
    assert await approvals_of(run).question(Send(), "c1", TO_BOB, "") is not None


async def test_the_persons_own_yes_is_asked_for_where_the_tool_wants_it(run: Run) -> None:
    tool = Send()
    tool.asks = "person"
    found = await approvals_of(run).question(tool, "c1", TO_BOB, "")
    assert found == Asked("c1", "send", TO_BOB, of_person=True)


async def test_senders_are_listed_unless_it_is_said(run: Run) -> None:
    await in_thread(lambda: ToolGrant.objects.create(tool="send", user=run.user))
    assert await Approvals(run, lambda _: "always").question(Send(), "c1", TO_BOB, "") is None


@pytest.mark.parametrize(("away", "state"), [(2, State.DONE), (99, State.STARTED)])
async def test_the_result_of_a_call_counts_while_the_database_is_away(
    run: Run, monkeypatch: pytest.MonkeyPatch, away: int, state: str
) -> None:
    """It was made: a person who is told of an error would ask for it once more."""
    monkeypatch.setattr(approvals, "FINISH_SECONDS", 0.1)
    monkeypatch.setattr(transactions, "AWAY_SECONDS", 0.01)
    of_run, finish, tries = approvals_of(run), tool_calls.finish, iter(range(away))

    def finish_when_there(**given: Any) -> None:
        if next(tries, None) is not None:
            raise OperationalError("the server closed the connection")
        finish(**given)

    monkeypatch.setattr(tool_calls, "finish", finish_when_there)
    rows = [
        await of_run.begin(Send(), each, TO_BOB + " " * number)
        for number, each in enumerate(("c1", "c2"))
    ]
    await of_run.end(rows[0], ToolResult("sent"))
    assert (await in_thread(ToolCall.objects.get, pk=rows[0].pk)).state == state
    await of_run.end(rows[1], None)
    assert rows[1].state == State.UNSURE


@pytest.mark.parametrize("asked", ["is_granted", "start"])
async def test_a_call_waits_for_a_database_that_is_away(
    run: Run, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr(transactions, "AWAY_SECONDS", 0.01)
    call, failures = getattr(tool_calls, asked), [OperationalError("the server closed")]

    def sometimes(**given: Any) -> Any:
        if failures:
            raise failures.pop()
        return call(**given)

    monkeypatch.setattr(tool_calls, asked, sometimes)
    of_run = approvals_of(run)
    assert await of_run.question(Send(), "c1", TO_BOB, "") is not None
    assert (await of_run.begin(Send(), "c1", TO_BOB)).state == State.STARTED
    assert failures == []


async def test_a_call_is_begun_once_and_a_later_attempt_gets_its_result(run: Run) -> None:
    of_run, wanted = approvals_of(run), SignInWanted(5, "Notes", scope="read")
    row = await of_run.begin(Send(), "c1", TO_BOB)
    assert (row.state, row.call_id, row.tool, row.arguments) == ("started", "c1", "send", TO_BOB)
    result = ToolResult(
        "sent",
        ok=False,
        final=True,
        shown="Sent!",
        files=[{"id": "f"}],
        sign_in=wanted,
    )
    await of_run.end(row, result)
    again = await of_run.begin(Send(), "c1", TO_BOB)
    assert (again.pk, again.state) == (row.pk, "done")
    assert result_of(again) == (result, "")


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_call_that_was_interrupted_is_begun_again_only_where_it_may_be(
    run: Run, idempotent: bool
) -> None:
    tool = Send()
    tool.idempotent = idempotent
    await approvals_of(run).begin(tool, "c1", TO_BOB)
    run.attempt = 2
    await in_thread(run.save)
    row = await approvals_of(run).begin(tool, "c1", TO_BOB)
    assert row.state == ("started" if idempotent else "unsure")


async def test_a_call_without_a_result_in_time_is_unsure(run: Run) -> None:
    of_run = approvals_of(run)
    row = await of_run.begin(Send(), "c1", TO_BOB)
    await of_run.end(row, None)
    assert row.state == "unsure"
    again = await of_run.begin(Send(), "c1", TO_BOB)
    assert (again.state, again.result) == ("unsure", None)


def told(state: str, kind: str = "yes", **columns: Any) -> tuple[ToolResult, str]:
    """Return what is told of a call in a state."""
    return result_of(ToolCall(tool="send", arguments=TO_BOB, state=state, kind=kind, **columns))


@pytest.mark.parametrize(
    ("state", "kind", "to_model", "to_person"),
    [
        (State.DENIED, "yes", "permission was refused", approvals.DENIED),
        (State.EXPIRED, "yes", "no answer whether it is allowed", approvals.EXPIRED),
        (State.UNSURE, "yes", f"This was sent: {TO_BOB}", approvals.UNSURE),
        (State.WAITING, "yes", "permission was refused", approvals.DENIED),
        (State.WITHDRAWN, "yes", "permission was refused", approvals.DENIED),
        (State.DENIED, "sign_in", "sign-in that it needs was declined", approvals.NO_SIGN_IN),
        (State.EXPIRED, "sign_in", "no sign-in for it in time", approvals.NO_SIGN_IN),
        (State.UNSURE, "sign_in", f"This was sent: {TO_BOB}", approvals.UNSURE),
    ],
)
def test_the_model_and_the_person_are_told_why_a_call_was_not_made(
    state: str, kind: str, to_model: str, to_person: str
) -> None:
    result, line = told(state, kind)
    assert not result.ok
    assert to_model in result.text
    assert line == to_person
    assert "“send”" in line.format("“send”")
    assert (result.final, result.shown, result.sign_in) == (False, "", None)


def test_arguments_that_were_perhaps_sent_are_told_up_to_a_bound() -> None:
    result, _ = result_of(ToolCall(state=State.UNSURE, arguments="x{y}" + "z" * 3000))
    assert "x{y}zz" in result.text
    assert result.text.count("z") == 1996


def test_a_call_that_is_done_without_a_text_has_an_empty_one() -> None:
    assert told(State.DONE) == (ToolResult(""), "")
    assert told(State.DONE, result={"ok": False, "sign_in": None}) == (ToolResult("", ok=False), "")
    assert told(State.DONE, "sign_in", result={"text": "x"}) == (ToolResult("x"), "")


def lines(*questions: Asked) -> list[tuple[str, str]]:
    """Return the sentences about questions, with their addresses."""
    return [*waiting_lines(questions)]


def test_one_sentence_names_all_tools_that_wait_for_a_yes_and_one_each_sign_in() -> None:
    yes, other = Asked("1", "send", "{}"), Asked("2", "look", "{}")
    own = Asked("3", "send", "{}", of_person=True)
    assert lines() == []
    assert lines(own) == [("May I use “send”?", "")]
    of_owner = "I have asked the owner whether I may use “send, look”."
    [(line, address)] = lines(yes, other, yes, own)
    assert (line.startswith(of_owner), address) == (True, "")
    [(line, _)] = lines(own, other)
    assert line.startswith(of_owner)
    mine, gateway = SignInWanted(1, "Notes"), SignInWanted(2, "Shed", of_gateway=True)
    read = Asked("4", "read", "{}", of_person=True, sign_in=mine)
    again = Asked("5", "read", "{}", of_person=True, sign_in=mine)
    assert lines(read, again) == [
        (approvals.SIGN_IN.format("“Notes”"), sign_in_page(mine.public_id))
    ]
    at_the_gateway = Asked("6", "put", "{}", sign_in=gateway)
    assert lines(at_the_gateway) == [(approvals.OWNER_SIGNS_IN.format("“Shed”"), "")]
    assert lines(read, own, at_the_gateway, again) == [
        ("May I use “send”?", ""),
        *lines(read),
        *lines(at_the_gateway),
    ]
