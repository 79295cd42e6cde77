"""Calls of tools: how long a yes holds, that each is made at most once, and the runs that go on."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from core.conversations import tool_calls
from core.conversations.events import LostLeaseError
from core.conversations.tool_calls import Asked, Kept, SignInWanted, Stored, digest_of
from core.database.transactions import atomic_write
from core.models import (
    Assistant,
    AssistantBinding,
    ChatSession,
    LanguageModel,
    McpServer,
    McpSignIn,
    ModelProvider,
    Run,
    RunPause,
    ToolCall,
    ToolGrant,
    User,
)
from core.providers import catalogue
from tests.plans import listening
from tests.statements import before_each

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("woken", "commits_at_once")]
State = ToolCall.State
HOUR, SECONDS = timedelta(hours=1), timedelta(seconds=20)
TO_BOB = '{"to":"bob"}'
PAUSED = 'FROM "core_runpause"'


@pytest.fixture
def owner(session: ChatSession) -> User:
    """Return who decides."""
    return User.objects.create(username="owner", is_owner=True)


@pytest.fixture
def make_run(session: ChatSession) -> Callable[..., Run]:
    """Return ``make_run(columns…)``: an ended run."""

    def make(**columns: Any) -> Run:
        values = {"session": session, "user": session.user, "state": "succeeded", **columns}
        return Run.objects.create(**values)

    return make


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    """Return a run that ended with questions, which are not stored yet."""
    return make_run(attempt=1, text="send it")


def put(run: Run, call_id: str = "c1", **columns: Any) -> ToolCall:
    """Store a call that waits; make the pause of its run."""
    RunPause.objects.get_or_create(run=run)
    values = {"tool": "send", "arguments": TO_BOB, "state": State.WAITING, **columns}
    values.setdefault("expires_at", timezone.now() + HOUR)
    values.setdefault("digest", digest_of(values["tool"], values["arguments"]))
    return ToolCall.objects.create(run=run, call_id=call_id, **values)


def going_on(run: Run, make_run: Callable[..., Run], **columns: Any) -> Run:
    """Return a running run that goes on with another one."""
    values = {"attempt": 1, "state": "running", "options": {"continues": run.pk}, **columns}
    return make_run(**values)


def other_session(run: Run, chat: str = "43", **columns: Any) -> ChatSession:
    """Return another conversation of the same account, of the same person unless told."""
    values = {"user": run.user, "account": run.session.account, **columns}
    return ChatSession.objects.create(chat=chat, **values)


def next_of(run: Run) -> Run | None:
    """Return the run that was made to go on with a paused one."""
    return RunPause.objects.get(run=run).continued_by


def fresh(row: ToolCall) -> ToolCall:
    """Return a call as it is stored."""
    return ToolCall.objects.get(pk=row.pk)


def is_now(moment: datetime | None, *, later: timedelta = timedelta()) -> bool:
    """Return whether a moment is now, or so much later."""
    return moment is not None and abs(moment - later - timezone.now()) < SECONDS


def lock(row: ToolCall) -> ToolCall:
    """Return a call as who decides has it."""
    found = tool_calls.locked(row)
    assert found is not None
    return found


# -- the hash of a call ------------------------------------------------------------------------


def test_the_hash_of_a_call_is_of_its_tool_and_its_arguments_in_any_form() -> None:
    """Buttons that were sent before an upgrade have it."""
    plain = digest_of("send", '{"to":"bob","a":[1,{"c":2,"b":3}]}')
    assert plain == digest_of("send", '{ "a" : [1, {"b": 3, "c": 2}], "to": "bob" }')
    assert plain.startswith("087ce4cae5e29787")
    assert len(plain) == 64
    others = [
        digest_of("send", '{"to":"bob","a":[{"c":2,"b":3},1]}'),
        digest_of("sends", '{"to":"bob","a":[1,{"c":2,"b":3}]}'),
        digest_of("send", '{"to":"Bob","a":[1,{"c":2,"b":3}]}'),
        digest_of("send", ""),
        digest_of("send", "[]"),
        digest_of("send", '{"to": '),
        digest_of("send", '{"to":'),
        digest_of("send", "\ud800"),
        digest_of("send", "\ud801"),
    ]
    assert len({plain, *others}) == 10
    assert digest_of("send", "") == digest_of("send", "{}")


def test_arguments_have_a_hash_however_deeply_they_are_nested() -> None:
    deep, deeper = '{"a":' * 300 + "1" + "}" * 300, '{"a":' * 2000 + "1" + "}" * 2000
    assert len({digest_of("send", each) for each in (deep, f"{deep} ", deeper, "1")}) == 4


# -- a yes that holds --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "holds"),
    [
        pytest.param({}, True, id="always"),
        pytest.param({"session": "this"}, True, id="in this conversation"),
        pytest.param({"session": "other"}, False, id="in another one"),
        pytest.param({"until": HOUR}, True, id="for an hour"),
        pytest.param({"until": -SECONDS}, False, id="until now"),
        pytest.param({"session": "this", "until": HOUR}, True, id="here for an hour"),
        pytest.param({"session": "this", "until": -SECONDS}, False, id="here until now"),
        pytest.param({"tool": "look"}, False, id="for another tool"),
        pytest.param({"user": "other"}, False, id="to another person"),
    ],
)
def test_an_earlier_yes_holds_for_its_tool_person_place_and_time(
    run: Run, owner: User, columns: dict[str, Any], holds: bool
) -> None:
    other = other_session(run)
    values: dict[str, Any] = {"tool": "send", "user": run.user, **columns}
    if "session" in columns:
        values["session"] = run.session if columns["session"] == "this" else other
    if "until" in columns:
        values["until"] = timezone.now() + columns["until"]
    if "user" in columns:
        values["user"] = owner
    ToolGrant.objects.create(**values)
    assert tool_calls.is_granted(tool="send", run=run) is holds


# -- questions ---------------------------------------------------------------------------------


def test_a_pause_stores_the_messages_of_the_turn_and_a_question_for_each_call(
    run: Run, owner: User
) -> None:
    messages: list[Any] = [{"role": "user", "content": "send it"}]
    asked = [
        (Asked("c1", "send", TO_BOB, "1 €" * 100), owner.pk),
        (Asked("c2", "look", "{}", of_person=True), run.user_id),
        (Asked("c3", "look", ""), None),
    ]
    with atomic_write():
        first, second, third = tool_calls.pause(run=run, messages=messages, asked=asked)
    assert RunPause.objects.get(run=run).messages == messages
    assert [each.pk for each in tool_calls.waiting()] == [first.pk, second.pk, third.pk]
    row = fresh(first)
    assert (row.run_id, row.call_id, row.tool, row.arguments) == (run.pk, "c1", "send", TO_BOB)
    assert row.digest == digest_of("send", TO_BOB)
    assert (row.cost, row.state, row.kind) == (("1 €" * 100)[:200], "waiting", "yes")
    assert (row.of_person, row.asked_of_id, row.sign_in_id) == (False, owner.pk, None)
    assert is_now(row.expires_at, later=timedelta(hours=settings.TOOL_QUESTION_HOURS))
    assert (fresh(second).of_person, fresh(second).asked_of_id) == (True, run.user_id)
    assert (fresh(third).asked_of_id, fresh(third).cost) == (None, "")
    assert not McpSignIn.objects.exists()


@pytest.fixture
def server(session: ChatSession) -> McpServer:
    """Return an MCP server."""
    return McpServer.objects.create(name="Notes", slug="notes", url="https://notes.test/mcp")


def test_calls_that_need_one_sign_in_wait_for_it_once(
    run: Run, owner: User, server: McpServer, make_run: Callable[..., Run]
) -> None:
    """One that must not be made twice has a row already: its start was stored."""
    wanted = SignInWanted(server.pk, "Notes", scope="read", resource_metadata="https://m.test")
    other = SignInWanted(server.pk, "Notes", of_gateway=True)
    started = put(run, "c1", state=State.DONE, expires_at=None)
    kept = put(run, "c9", state=State.DONE)
    elsewhere = put(make_run(), "c1", state=State.DONE)
    RunPause.objects.all().delete()
    asked = [
        (Asked("c1", "read", "{}", sign_in=wanted), run.user_id),
        (Asked("c2", "read", "{}", sign_in=wanted), run.user_id),
        (Asked("c3", "read", "{}", sign_in=other), owner.pk),
        (Asked("c4", "send", TO_BOB), owner.pk),
    ]
    rows = [fresh(each) for each in tool_calls.pause(run=run, messages=[], asked=asked)]
    assert not ToolCall.objects.filter(pk=started.pk).exists()
    assert ToolCall.objects.filter(pk__in=[kept.pk, elsewhere.pk]).count() == 2
    assert [each.kind for each in rows] == ["sign_in", "sign_in", "sign_in", "yes"]
    own, same, gateway, none = (each.sign_in for each in rows)
    assert own is not None
    assert own == same
    assert (own.public_id, own.server_id, own.user_id) == (
        wanted.public_id,
        server.pk,
        run.user_id,
    )
    assert (own.of_gateway, own.scope, own.resource_metadata) == (False, "read", "https://m.test")
    assert own.expires_at == rows[0].expires_at
    assert gateway is not None
    assert (gateway.public_id, gateway.of_gateway, gateway.user_id) == (
        other.public_id,
        True,
        owner.pk,
    )
    assert none is None
    assert McpSignIn.objects.count() == 2


def test_a_question_without_a_person_or_its_server_has_no_sign_in(
    run: Run, owner: User, server: McpServer
) -> None:
    wanted, gone = SignInWanted(server.pk, "Notes"), SignInWanted(server.pk + 1, "Gone")
    asked = [
        (Asked("c1", "read", "{}", sign_in=wanted), None),
        (Asked("c2", "read", "{}", sign_in=gone), owner.pk),
    ]
    rows = tool_calls.pause(run=run, messages=[], asked=asked)
    assert [(each.kind, each.sign_in_id) for each in map(fresh, rows)] == [("sign_in", None)] * 2
    assert not McpSignIn.objects.exists()


def test_waiting_calls_are_read_with_all_that_is_shown_of_them_the_oldest_first(
    run: Run, owner: User, server: McpServer
) -> None:
    sign_in = McpSignIn.objects.create(server=server, user=owner, expires_at=timezone.now())
    soon = timezone.now() + timedelta(minutes=1)
    put(run, "a", asked_of=owner, sign_in=sign_in)
    put(run, "b", expires_at=soon)
    put(run, "c", expires_at=soon)
    for number, state in enumerate(each for each in State if each != State.WAITING):
        put(run, str(number), state=state)
    assert [each.call_id for each in tool_calls.waiting()] == ["b", "c", "a"]
    found = [lock(tool_calls.waiting()[2]), tool_calls.waiting()[2]]
    with listening() as sent:
        for row in found:
            assert row.asked_of is not None
            assert row.sign_in is not None
            assert row.run.user.username == "ada"
            assert row.run.session.account.name == "main"
            assert (row.asked_of.username, row.sign_in.server.name) == ("owner", "Notes")
    assert sent == []


def test_a_locked_call_is_as_another_process_has_left_it(
    make_run: Callable[..., Run], run: Run
) -> None:
    """Its lock is that of the pause, which its other calls have in common."""
    put(make_run())
    row = put(run)
    put(run, "c2")
    ToolCall.objects.filter(pk=row.pk).update(state=State.DENIED)
    with listening() as sent:
        found = lock(row)
    assert (found.pk, found.state) == (row.pk, "denied")
    assert PAUSED in sent[0].sql
    assert list(sent[0].params) == [run.pk]
    if connection.features.has_select_for_no_key_update:
        assert sent[0].sql.endswith("FOR NO KEY UPDATE")


# -- decisions ---------------------------------------------------------------------------------


def test_the_last_decision_makes_the_run_that_goes_on_once(
    run: Run, owner: User, woken: list[tuple[str, int]]
) -> None:
    first, second = put(run, "c1"), put(run, "c2")
    tool_calls.allow(call=lock(first), by=owner.pk, scope="once")
    row = fresh(first)
    assert (row.state, row.decided_by_id, row.scope, row.edited) == (
        "allowed",
        owner.pk,
        "once",
        False,
    )
    assert is_now(row.decided_at)
    assert (next_of(run), woken) == (None, [])
    tool_calls.deny(call=lock(second), by=owner.pk)
    row = fresh(second)
    assert (row.state, row.decided_by_id) == ("denied", owner.pk)
    assert is_now(row.decided_at)
    made = next_of(run)
    assert made is not None
    assert (made.state, made.options) == ("queued", {"continues": run.pk})
    assert woken == [("wake", made.pk)]
    tool_calls.go_on([run.pk])
    assert next_of(run) == made
    assert Run.objects.count() == 2
    assert not ToolGrant.objects.exists()


@pytest.mark.parametrize(
    ("other", "goes_on"), [(State.WAITING, False), (State.WITHDRAWN, False), (State.EXPIRED, True)]
)
def test_a_run_goes_on_when_no_question_is_open_and_none_was_taken_back(
    run: Run, owner: User, make_run: Callable[..., Run], other: str, goes_on: bool
) -> None:
    other_run, undecided = make_run(), make_run()
    put(undecided, state=State.DENIED)  # by a transaction that makes its run itself
    row, elsewhere = put(run, "c1"), put(other_run, "c1")
    put(run, "c2", state=other)
    tool_calls.allow(call=lock(row), by=owner.pk, scope="once")
    assert (next_of(run) is not None) is goes_on
    assert next_of(other_run) is None
    tool_calls.deny(call=lock(elsewhere), by=owner.pk)
    assert next_of(other_run) is not None
    assert next_of(undecided) is None


def test_edited_arguments_are_those_that_are_allowed_and_have_their_own_hash(
    run: Run, owner: User
) -> None:
    row, same = put(run, "c1"), put(run, "c2")
    tool_calls.allow(call=lock(row), by=owner.pk, scope="once", arguments='{"to": "carol"}')
    found = fresh(row)
    assert (found.arguments, found.edited) == ('{"to": "carol"}', True)
    assert found.digest == digest_of("send", '{"to": "carol"}')
    tool_calls.allow(call=lock(same), by=owner.pk, scope="once", arguments='{ "to": "bob" }')
    found = fresh(same)
    assert (found.arguments, found.edited, found.digest) == (TO_BOB, False, same.digest)


def test_a_yes_for_longer_is_stored_with_its_place_and_end(run: Run, owner: User) -> None:
    def allow(scope: str) -> None:
        row = put(run, str(ToolCall.objects.count()))
        tool_calls.allow(call=lock(row), by=owner.pk, scope=scope)

    allow("hour")
    grant = ToolGrant.objects.get()
    assert (grant.tool, grant.user_id, grant.created_by_id) == ("send", run.user_id, owner.pk)
    assert grant.session_id == run.session_id
    assert is_now(grant.until, later=HOUR)
    ToolGrant.objects.update(until=timezone.now(), created_by=None)
    allow("hour")
    again = ToolGrant.objects.get()
    assert (again.pk, again.created_by_id) == (grant.pk, owner.pk)
    assert is_now(again.until, later=HOUR)
    allow("always")
    always = ToolGrant.objects.exclude(pk=grant.pk).get()
    assert (always.session_id, always.until) == (None, None)
    assert (always.tool, always.user_id, always.created_by_id) == ("send", run.user_id, owner.pk)


def test_questions_expire_at_their_time_and_show_that_in_the_same_transaction(
    run: Run, make_run: Callable[..., Run]
) -> None:
    now = timezone.now()
    over, later = put(run, "c1", expires_at=now), put(run, "c2", expires_at=now + HOUR)
    denied = put(make_run(), "c1", expires_at=now - HOUR, state=State.DENIED)
    shown: list[tuple[int, str]] = []

    def show(row: ToolCall) -> None:
        shown.append((row.pk, fresh(row).state))

    tool_calls.expire(now=now - timedelta(microseconds=1), show=show)
    assert shown == []
    tool_calls.expire(now=now, show=show)
    assert shown == [(over.pk, "expired")]
    assert (fresh(over).state, fresh(over).decided_at) == ("expired", now)
    assert (fresh(later).state, fresh(denied).state) == ("waiting", "denied")
    assert next_of(run) is None
    tool_calls.expire(now=now + HOUR, show=show)
    assert len(shown) == 2
    assert next_of(run) is not None


def test_a_question_of_which_the_end_cannot_be_shown_stays_open(run: Run) -> None:
    row = put(run, expires_at=timezone.now())

    def killed(_: ToolCall) -> None:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        tool_calls.expire(now=timezone.now(), show=killed)
    assert (fresh(row).state, next_of(run)) == ("waiting", None)


def test_an_answer_in_the_last_moment_counts_before_the_expiry(
    run: Run, make_run: Callable[..., Run]
) -> None:
    """The other questions expire all the same."""
    now = timezone.now()
    row = put(run, expires_at=now - HOUR)
    other = put(make_run(), expires_at=now)
    answered = ToolCall.objects.filter(pk=row.pk)
    with before_each(PAUSED, lambda: answered.update(state=State.ALLOWED)):
        tool_calls.expire(now=now, show=lambda _: None)
    assert (fresh(row).state, fresh(row).decided_at) == ("allowed", None)
    assert fresh(other).state == "expired"


def test_questions_of_a_conversation_or_a_person_are_taken_back(
    run: Run, owner: User, make_run: Callable[..., Run]
) -> None:
    other, foreign = other_session(run), other_session(run, "44", user=owner)
    here, done = put(run, "c1"), put(run, "c2", state=State.ALLOWED)
    there = put(make_run(session=other), "c1")
    theirs = put(make_run(session=foreign, user=owner), "c1")
    assert [each.pk for each in tool_calls.withdraw(session_id=run.session_id)] == [here.pk]
    assert is_now(fresh(here).decided_at)
    assert (fresh(here).state, fresh(done).state) == ("withdrawn", "allowed")
    assert (fresh(there).state, fresh(theirs).state) == ("waiting", "waiting")
    assert tool_calls.withdraw(session_id=run.session_id) == []
    again = put(run, "c3")
    taken = tool_calls.withdraw(user_id=run.user_id)
    assert {each.pk for each in taken} == {again.pk, there.pk}
    assert {each.state for each in taken} == {"withdrawn"}
    assert fresh(theirs).state == "waiting"
    assert tool_calls.withdraw(session_id=other.pk, user_id=owner.pk) == []
    assert next_of(run) is None


def test_a_call_that_is_allowed_meanwhile_is_not_taken_back(run: Run) -> None:
    row, other = put(run, "c1"), put(run, "c2")
    answered = ToolCall.objects.filter(pk=row.pk)
    with before_each(PAUSED, lambda: answered.update(state=State.ALLOWED)):
        taken = tool_calls.withdraw(session_id=run.session_id)
    assert [each.pk for each in taken] == [other.pk]
    assert (fresh(row).state, fresh(row).decided_at) == ("allowed", None)


# -- the run that goes on ----------------------------------------------------------------------


def test_the_run_that_goes_on_is_in_the_place_and_of_the_key_of_the_paused_one(
    make_run: Callable[..., Run], owner: User
) -> None:
    known = catalogue.current()
    given = {
        "tools": [{"type": "function"}],
        "model_options": {"tool_choice": "auto", "temperature": 0.5},
        "schedule": {"id": "x"},
        "continues": 3,
    }
    run = make_run(
        user=owner,
        origin="http",
        route={"chat": "42"},
        options=given,
        via_key=7,
        assistant_id=known.default,
        assistant_version=5,
        text="send it",
    )
    made = tool_calls.following(run)
    assert made.pk is None
    assert (made.session_id, made.user_id, made.origin) == (run.session_id, owner.pk, "http")
    assert (made.route, made.via_key, made.text) == ({"chat": "42"}, 7, "send it")
    assert made.state == "queued"
    assert made.options == {
        "model_options": {"temperature": 0.5},
        "schedule": {"id": "x"},
        "continues": run.pk,
    }
    assert given["model_options"] == {"tool_choice": "auto", "temperature": 0.5}
    assert (made.assistant_id, made.assistant_version) == (known.default, 5)


@pytest.mark.parametrize("given", [{}, {"temperature": 0.5}, None])
def test_options_of_the_model_without_a_forced_call_stay(
    make_run: Callable[..., Run], given: dict[str, Any] | None
) -> None:
    run = make_run(options={"model_options": given})
    assert tool_calls.options_of(run) == {"model_options": given, "continues": run.pk}


def test_an_assistant_that_is_gone_is_replaced_by_the_one_of_the_place(
    make_run: Callable[..., Run],
) -> None:
    known = catalogue.current()
    default = known.assistants[known.default]
    made = tool_calls.following(make_run(assistant_id=987, assistant_version=5, model_id=654))
    assert (made.assistant_id, made.assistant_version) == (default.id, default.version)
    assert made.model_id == 0


def test_the_assistant_and_the_model_of_the_paused_run_go_on(
    make_run: Callable[..., Run],
) -> None:
    """As they are now: an assistant is the one of the key where the run's is not offered more."""
    known = catalogue.current()
    chosen = Assistant.objects.create(name="Chosen", slug="chosen", version=3)
    of_key = Assistant.objects.create(name="Bound", slug="bound", version=4, offered="nobody")
    AssistantBinding.objects.create(assistant=of_key, key_id=7)
    provider = ModelProvider.objects.create(name="P")
    model = LanguageModel.objects.create(provider=provider, name="m", offered=True)
    run = make_run(assistant_id=chosen.pk, assistant_version=2, model_id=model.pk, via_key=7)
    made = tool_calls.following(run)
    assert (made.assistant_id, made.assistant_version, made.model_id) == (chosen.pk, 2, model.pk)
    Assistant.objects.get(pk=chosen.pk).delete()
    LanguageModel.objects.get(pk=model.pk).delete()
    made = tool_calls.following(run)
    assert (made.assistant_id, made.assistant_version, made.model_id) == (of_key.pk, 4, 0)
    run.via_key = 0
    assert tool_calls.following(run).assistant_id == known.default


def test_a_run_goes_on_with_the_messages_and_the_calls_that_were_asked_about(
    run: Run, make_run: Callable[..., Run]
) -> None:
    """With the arguments that were allowed; a call that needed no yes has its result in them."""

    def message(*calls: tuple[str, str]) -> dict[str, Any]:
        made = [
            {"id": name, "type": "function", "function": {"name": "send", "arguments": given}}
            for name, given in calls
        ]
        return {"role": "assistant", "content": "Wait.", "tool_calls": made}

    first = put(run, "c1", state=State.ALLOWED, arguments='{"to":"carol"}', edited=True)
    second = put(run, "c2", state=State.DENIED)
    put(run, "c3", state=State.DONE, expires_at=None)
    put(make_run(), "c1")
    user = {"role": "user", "content": "c1"}
    messages = [user, message(("c1", TO_BOB), ("c2", TO_BOB)), message(("c3", "{}"))]
    RunPause.objects.filter(run=run).update(messages=messages)
    found = tool_calls.kept_for(going_on(run, make_run))
    expected = [user, message(("c1", '{"to":"carol"}'), ("c2", TO_BOB)), message(("c3", "{}"))]
    assert found == Kept(expected, [first, second], [])
    first.edited = False
    first.save()
    assert tool_calls.kept_for(going_on(run, make_run, state="queued")).messages == messages


def test_the_next_attempt_of_a_run_begins_with_the_calls_that_were_begun(
    run: Run, make_run: Callable[..., Run]
) -> None:
    assert tool_calls.kept_for(run) == Kept()
    put(run, "c1", state=State.ALLOWED)
    later = going_on(run, make_run)
    begun = [put(later, "c2", state=State.STARTED), put(later, "c3", state=State.DONE)]
    put(later, "c4", state=State.WAITING)
    assert tool_calls.kept_for(later).made == []
    later.attempt = 2
    found = tool_calls.kept_for(later)
    assert (found.made, [each.call_id for each in found.asked]) == (begun, ["c1"])
    RunPause.objects.filter(run=run).delete()
    assert tool_calls.kept_for(later) == Kept(made=begun)
    later.options = {}
    assert tool_calls.kept_for(later) == Kept(made=begun)


# -- at most once ------------------------------------------------------------------------------


def start(run: Run, call_id: str = "c1", **more: Any) -> ToolCall:
    """Start a call of a run."""
    values = {"tool": "send", "arguments": TO_BOB, "idempotent": False, **more}
    return tool_calls.start(run=run, call_id=call_id, **values)


@pytest.fixture
def running(make_run: Callable[..., Run]) -> Run:
    """Return a run in its second attempt."""
    return make_run(state="running", attempt=2)


def test_a_call_that_asks_no_one_is_stored_as_started_before_it_is_made(running: Run) -> None:
    row = fresh(start(running))
    assert (row.run_id, row.call_id, row.tool, row.arguments) == (running.pk, "c1", "send", TO_BOB)
    assert row.digest == digest_of("send", TO_BOB)
    assert (row.state, row.carried_out_in_id, row.attempt) == ("started", running.pk, 2)
    assert is_now(row.started_at)
    assert (row.finished_at, row.expires_at) == (None, None)


def test_a_call_of_another_run_with_the_same_id_is_another_one(
    make_run: Callable[..., Run],
) -> None:
    """Models count their calls anew in each answer."""
    others = [put(make_run(pk=each), "c1", state=State.DONE) for each in (1, 2)]
    running = make_run(pk=3, state="running", attempt=2)
    assert start(running).pk not in {each.pk for each in others}


def test_an_allowed_call_is_started_by_the_run_that_goes_on(
    run: Run, running: Run, make_run: Callable[..., Run]
) -> None:
    put(make_run(), "c1", state=State.DONE)
    row = put(run, state=State.ALLOWED)
    running.options = {"continues": run.pk}
    made = start(running)
    assert (made.pk, made.state) == (row.pk, "started")
    found = fresh(row)
    assert (found.run_id, found.carried_out_in_id, found.attempt) == (run.pk, running.pk, 2)
    assert is_now(found.started_at)
    assert ToolCall.objects.count() == 2


@pytest.mark.parametrize(
    "state", [each for each in State if each not in {State.ALLOWED, State.STARTED}]
)
def test_a_call_without_a_yes_or_with_a_result_is_not_started(
    run: Run, make_run: Callable[..., Run], state: str
) -> None:
    row = put(run, state=state)
    assert (start(going_on(run, make_run)).pk, fresh(row).state) == (row.pk, state)
    assert (fresh(row).carried_out_in_id, fresh(row).started_at) == (None, None)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("before", ["attempt", "run", "same"])
def test_a_start_without_an_end_is_unsure_unless_it_may_be_repeated(
    running: Run, make_run: Callable[..., Run], before: str, idempotent: bool
) -> None:
    """Of an earlier attempt, or of a run before; an attempt itself makes a call once."""
    started: dict[str, Any] = {
        "attempt": {"carried_out_in": running, "attempt": 1},
        "run": {"carried_out_in": make_run(), "attempt": 2},
        "same": {"carried_out_in": running, "attempt": 2},
    }[before]
    row = put(running, state=State.STARTED, **started)
    found = start(running, idempotent=idempotent)
    is_repeated = idempotent and before != "same"
    assert (found.pk, found.state) == (row.pk, "started" if is_repeated else "unsure")
    found = fresh(row)
    assert found.state == ("started" if is_repeated else "unsure")
    if is_repeated:
        assert (found.carried_out_in_id, found.attempt) == (running.pk, 2)
        assert is_now(found.started_at)
        assert found.finished_at is None
    else:
        assert (found.carried_out_in, found.attempt) == tuple(started.values())
        assert found.started_at is None
        assert is_now(found.finished_at)


def test_a_call_with_the_arguments_of_an_unsure_one_is_not_made_under_another_id(
    run: Run, make_run: Callable[..., Run]
) -> None:
    """Also after two pauses; one of another tool, with others, or of another turn is."""
    second = going_on(run, make_run, state="succeeded")
    third = going_on(second, make_run)
    unsure = put(run, "a", state=State.UNSURE)
    put(run, "b", state=State.DONE, arguments='{"to":"carol"}')
    found = start(third, "new", arguments='{ "to": "bob" }')
    assert (found.pk, found.state) == (unsure.pk, "unsure")
    assert start(third, "n1", arguments='{"to":"carol"}').state == "started"
    assert start(third, "n2", tool="look").state == "started"
    elsewhere = make_run(state="running", session=other_session(run))
    assert start(elsewhere, "n3").state == "started"
    own = put(third, "own", state=State.UNSURE, arguments='{"to":"eve"}')
    assert start(third, "n4", arguments='{"to":"eve"}').pk == own.pk
    fourth = going_on(Run(pk=4_000_000), make_run, session=other_session(run, "44"))
    assert start(fourth, "n5").state == "started"


@pytest.mark.parametrize(
    "lost", [{"attempt": 3}, {"state": "queued"}, {"state": "cancelled"}, {"attempt": 1}]
)
def test_a_worker_that_has_lost_the_run_starts_nothing(running: Run, lost: dict[str, Any]) -> None:
    Run.objects.filter(pk=running.pk).update(**lost)
    with pytest.raises(LostLeaseError) as error:
        start(running)
    assert error.value.args == (running.pk,)
    assert not ToolCall.objects.exists()


def test_another_run_that_runs_is_no_right_to_start_a_call(
    running: Run, make_run: Callable[..., Run]
) -> None:
    Run.objects.filter(pk=running.pk).update(state="succeeded")
    make_run(state="running", attempt=2, session=other_session(running))
    with pytest.raises(LostLeaseError):
        start(running)


def test_the_result_of_a_call_is_kept_within_its_bound(running: Run, server: McpServer) -> None:
    row, other = start(running, "c1"), start(running, "c2")
    wanted = SignInWanted(server.pk, "Notes")
    result = Stored(
        "é" * 60_000, ok=False, final=True, shown="seen", files=[{"id": "f"}], sign_in=wanted
    )
    tool_calls.finish(call=row, result=result)
    found = fresh(row)
    assert found.state == "done"
    assert is_now(found.finished_at)
    assert found.result == {
        "text": "é" * 50_000,
        "ok": False,
        "final": True,
        "shown": "seen",
        "files": [{"id": "f"}],
        "sign_in": {
            "server_id": server.pk,
            "server": "Notes",
            "of_gateway": False,
            "scope": "",
            "resource_metadata": "",
            "public_id": wanted.public_id,
        },
    }
    assert fresh(other).state == "started"
    tool_calls.finish(call=other, result=None)
    found = fresh(other)
    assert (found.state, found.result) == ("unsure", None)
    assert is_now(found.finished_at)


@pytest.mark.parametrize(
    "columns", [{"state": State.UNSURE}, {"attempt": 3}, {"carried_out_in": "other"}]
)
def test_a_result_that_comes_too_late_changes_nothing(
    running: Run, make_run: Callable[..., Run], columns: dict[str, Any]
) -> None:
    """Another attempt or run has the call by now, or it is unsure."""
    row = start(running)
    changed = {**columns, "carried_out_in": make_run()} if "carried_out_in" in columns else columns
    ToolCall.objects.filter(pk=row.pk).update(**changed)
    tool_calls.finish(call=row, result=Stored("sent"))
    found = fresh(row)
    assert found.state == columns.get("state", "started")
    assert (found.result, found.finished_at) == (None, None)


def test_calls_whose_run_has_ended_without_their_result_are_unsure(
    running: Run, make_run: Callable[..., Run]
) -> None:
    def started(**columns: Any) -> ToolCall:
        number = str(ToolCall.objects.count())
        return put(running, number, **{"state": State.STARTED, **columns})

    ended = [make_run(state=each) for each in ("failed", "cancelled", "succeeded")]
    over = [started(carried_out_in=each) for each in ended] + [started(carried_out_in=None)]
    queued = make_run(state="queued")
    going = [started(carried_out_in=running), started(carried_out_in=queued)]
    others = [
        started(carried_out_in=ended[0], state=each) for each in State if each != State.STARTED
    ]
    before = {each.pk: each.state for each in [*going, *others]}
    assert {each.pk for each in tool_calls.left()} == {each.pk for each in over}
    assert tool_calls.close_left() == 4
    assert {fresh(each).state for each in over} == {"unsure"}
    assert all(is_now(fresh(each).finished_at) for each in over)
    found = ToolCall.objects.filter(pk__in=before)
    assert dict(found.values_list("pk", "state")) == before
    assert not found.exclude(finished_at=None).exists()
    assert tool_calls.close_left() == 0


def test_a_result_that_comes_while_calls_are_closed_is_kept(
    make_run: Callable[..., Run], running: Run
) -> None:
    row = start(running)
    Run.objects.filter(pk=running.pk).update(state="failed")
    done = ToolCall.objects.filter(pk=row.pk)
    with before_each('UPDATE "core_toolcall"', lambda: done.update(state=State.DONE)):
        assert tool_calls.close_left() == 0
    assert (fresh(row).state, fresh(row).finished_at) == ("done", None)


def test_so_many_calls_are_closed_in_one_sweep(run: Run, make_run: Callable[..., Run]) -> None:
    put(run)
    rows = [
        ToolCall(run=run, call_id=str(each), state=State.STARTED, carried_out_in=run)
        for each in range(103)
    ]
    ToolCall.objects.bulk_create(rows)
    assert [tool_calls.close_left() for _ in range(3)] == [100, 3, 0]


def test_a_clock_that_was_set_back_leaves_no_yes_and_no_question_open_for_long(
    run: Run, owner: User
) -> None:
    now, hours = timezone.now(), timedelta(hours=settings.TOOL_QUESTION_HOURS)
    days = timedelta(days=30)
    far, near = put(run, "c1", expires_at=now + days), put(run, "c2", expires_at=now + HOUR)
    denied = put(run, "c3", expires_at=now + days, state=State.DENIED)
    grants = [
        ToolGrant.objects.create(tool=tool, user=owner, until=until)
        for tool, until in (("a", now + days), ("b", now + HOUR / 2), ("c", None))
    ]
    tool_calls.bring_near()
    assert is_now(fresh(far).expires_at, later=hours)
    assert fresh(near).expires_at == near.expires_at
    assert fresh(denied).expires_at == denied.expires_at
    found = [ToolGrant.objects.get(pk=each.pk).until for each in grants]
    assert is_now(found[0], later=HOUR)
    assert found[1:] == [now + HOUR / 2, None]
