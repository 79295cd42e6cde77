"""Statements by hand: their rows, and that they touch few more than these."""

import pytest

from core.agent import prompt
from core.conversations import inbox, runs
from core.database import statements
from core.models import ChannelAccount, ChatSession, Message, Run, User
from tests.plans import analyse, work_of

Texts = list[tuple[str, str]]
LOOKED_AT = 500  # runs, by ``runs.recover``
# PostgreSQL looks rows up where it read a small table as a whole: a few pages for each.
PAGES_OF_A_ROW = 4


def turns(session: ChatSession, number: int, *, state: str = "succeeded") -> list[Run]:
    """Add turns of 10 tokens for each question and each answer."""
    user = session.user
    made = Run.objects.bulk_create(
        Run(session=session, user=user, origin="http", state=state) for _ in range(number)
    )
    Message.objects.bulk_create(
        Message(session=session, run=run, role=role, text=f"{role} {place}", tokens=10)
        for place, run in enumerate(made)
        for role in ("user", "assistant")
    )
    return made


def said(session: ChatSession, before: Run, **limits: int) -> Texts:
    """Return the history of a session before a run."""
    given = {"after_id": 0, "rows": 100, "tokens": 1000, "call_tokens": 0, **limits}
    found, _ = statements.history(session_id=session.pk, before_run=before.pk, **given)
    return [(each.role, each.text) for each in found]


def test_a_history_ends_where_the_next_text_would_not_fit(session: ChatSession) -> None:
    *_, last = turns(session, 4)
    newest = [("assistant", "assistant 2"), ("user", "user 2"), ("assistant", "assistant 1")]
    assert said(session, last, tokens=30) == newest
    assert said(session, last, tokens=39) == newest
    assert said(session, last, tokens=9) == []
    assert said(session, last, rows=2) == newest[:2]
    assert len(said(session, last)) == 6


def test_a_text_that_does_not_fit_hides_the_smaller_ones_before_it(session: ChatSession) -> None:
    *_, last = turns(session, 3)
    Message.objects.filter(text="user 1").update(tokens=500)
    assert said(session, last, tokens=100) == [("assistant", "assistant 1")]


def test_a_history_tells_whether_there_is_more(session: ChatSession) -> None:
    *_, last = turns(session, 6)
    given = {"session_id": session.pk, "before_run": last.pk, "after_id": 0, "call_tokens": 0}
    for rows, tokens, number in ((10, 100, 10), (100, 99, 9), (100, 9, 0), (9, 100, 9)):
        found, has_more = statements.history(rows=rows, tokens=tokens, **given)
        assert (len(found), has_more) == (number, number < 10)
    assert statements.history(rows=9, tokens=0, **(given | {"after_id": 2**40})) == ([], False)


def test_the_newest_messages_have_their_calls_as_far_as_these_fit(session: ChatSession) -> None:
    *_, last = turns(session, 4)
    calls = [{"id": "a", "name": "look", "arguments": "{}", "result": "é", "step": "1"}]
    answers = Message.objects.filter(session=session, role="assistant", run__lt=last)
    answers.update(calls=calls, call_tokens=10)
    for most, expected in ((9, 0), (10, 1), (25, 2), (30, 3)):
        found, _ = statements.history(
            session_id=session.pk,
            before_run=last.pk,
            after_id=0,
            rows=100,
            tokens=1000,
            call_tokens=most,
        )
        assert [bool(each.calls) for each in found] == [
            number < expected * 2 and each.role == "assistant" for number, each in enumerate(found)
        ]
        assert all(each.calls in ([], calls) for each in found)


def test_a_history_is_sorted_by_run_and_begins_after_forgotten_messages(
    session: ChatSession,
) -> None:
    first, second, third = turns(session, 3)
    late = Message.objects.create(session=session, run=first, role="assistant", text="late")
    Message.objects.create(session=session, run=second, role="system", text="unseen")
    assert [text for _, text in said(session, third)][-3:] == ["late", "assistant 0", "user 0"]
    assert said(session, third, after_id=late.pk) == []


def test_each_session_gives_its_oldest_queued_run(
    account: ChannelAccount, session: ChatSession
) -> None:
    assert statements.oldest_queued(sessions=10) == []
    other = inbox.open_session(user=User.objects.create(), account=account, chat="other")
    turns(session, 2)
    heads = [turns(each, 3, state="queued")[0].pk for each in (session, other)]
    assert statements.oldest_queued(sessions=10) == heads
    assert statements.oldest_queued(sessions=1) == heads[:1]


def test_a_session_with_many_waiting_runs_hides_no_other_one(
    account: ChannelAccount, session: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = turns(session, 5, state="queued")
    other = inbox.open_session(user=User.objects.create(), account=account, chat="other")
    [theirs] = turns(other, 1, state="queued")
    assert runs.recover(limit=2) == [first.pk, theirs.pk]
    monkeypatch.setattr(runs, "QUEUES_AT_ONCE", 1)
    assert runs.recover(limit=6) == [first.pk, theirs.pk]
    assert runs.recover(limit=2) == [first.pk]


def test_waiting_runs_of_one_session_cost_a_look_no_more(session: ChatSession) -> None:
    turns(session, 1000, state="queued")
    analyse()
    few = work_of(runs.recover)
    turns(session, 20_000, state="queued")
    analyse()
    rows = 2 * LOOKED_AT  # each run, and whether its session has an earlier one
    assert 0 < work_of(runs.recover) <= max(1.2 * few + 100, PAGES_OF_A_ROW * rows)


def test_a_long_chat_costs_a_prompt_no_more(session: ChatSession) -> None:
    *_, last = turns(session, 300)
    analyse()
    few = work_of(lambda: prompt.history(run=last, budget=2000))
    assert few > 0
    *_, last = turns(session, 10_000)
    analyse()
    bound = max(1.2 * few + 100, PAGES_OF_A_ROW * prompt.HISTORY_ROWS)
    assert work_of(lambda: prompt.history(run=last, budget=2000)) <= bound
    found, has_more = prompt.history(run=last, budget=2000)
    assert (len(found), has_more) == (prompt.HISTORY_ROWS, True)


def test_a_large_window_reads_a_bounded_number_of_messages(session: ChatSession) -> None:
    *_, last = turns(session, 1000)
    analyse()
    few = work_of(lambda: prompt.history(run=last, budget=1_000_000))
    *_, last = turns(session, 10_000)
    analyse()
    bound = max(1.2 * few + 100, PAGES_OF_A_ROW * prompt.MOST_ROWS)
    assert work_of(lambda: prompt.history(run=last, budget=1_000_000)) <= bound
    assert len(prompt.history(run=last, budget=1_000_000)[0]) == prompt.MOST_ROWS


def test_calls_of_tools_that_do_not_fit_are_not_read(session: ChatSession) -> None:
    *_, last = turns(session, 300)
    analyse()
    few = work_of(lambda: prompt.history(run=last, budget=2000))
    call = {"id": "a", "name": "look", "arguments": "{}", "result": "x" * 4000, "step": "1"}
    answers = Message.objects.filter(session=session, role="assistant")
    answers.update(calls=[call] * 4, call_tokens=4200)
    analyse()
    assert work_of(lambda: prompt.history(run=last, budget=2000)) <= 1.2 * few + 300
