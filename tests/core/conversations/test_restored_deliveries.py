"""Deliveries of a restored database: nothing is sent that may have been sent after the copy."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from core.conversations import restored_deliveries
from core.models import ChannelAccount, ChatSession, Delivery, Installation, Run
from tests.core.conversations.test_outbox import unsaved

pytestmark = pytest.mark.django_db
State = Delivery.State
DOUBT = {"doubt_chat": "1:42", "after_id": 7}


@pytest.fixture
def runs(session: ChatSession) -> dict[str, Run]:
    """Return a run that is held since the restore, and one that has ended."""
    return {
        state: Run.objects.create(session=session, user=session.user, state=state)
        for state in (Run.State.HELD, Run.State.SUCCEEDED)
    }


def put(account: ChannelAccount, key: str, **columns: Any) -> Delivery:
    """Store a delivery."""
    row = unsaved(account, key, **columns)
    row.save()
    return row


def test_unsent_deliveries_are_left_to_the_owner_and_edits_are_not(
    account: ChannelAccount, runs: dict[str, Run]
) -> None:
    """Those of a held run are made again by it; an older edit of its message would go back."""
    held, ended = runs[Run.State.HELD], runs[Run.State.SUCCEEDED]
    lease = {"lease_until": timezone.now()}
    sent = {"external_message_id": "5"}
    error = "x" * 900
    kinds: dict[str, tuple[dict[str, Any], tuple[Any, ...] | None]] = {
        "waits": ({}, (State.UNCERTAIN, error[:500])),
        "sending": ({"state": State.SENDING, **lease}, (State.UNCERTAIN, error[:500])),
        "of another run": ({"run": ended}, (State.UNCERTAIN, error[:500])),
        "of the held run": ({"run": held}, None),
        "sending of the held run": ({"run": held, "state": State.SENDING, **lease}, None),
        "edit": (sent, (State.PENDING, "")),
        "edit of another run": ({**sent, "run": ended, **lease}, (State.PENDING, "")),
        "edit being sent": ({**sent, "state": State.SENDING, **lease}, (State.PENDING, "")),
        "edit of the held run": ({**sent, "run": held, **lease}, (State.SENT, "")),
        "edit of it being sent": (
            {**sent, "run": held, "state": State.SENDING, **lease},
            (State.SENT, ""),
        ),
        "sent": ({**sent, "state": State.SENT}, (State.SENT, "")),
        "sent of the held run": ({**sent, "run": held, "state": State.SENT}, (State.SENT, "")),
        "dead": ({"state": State.DEAD, "run": held}, (State.DEAD, "")),
    }
    for place, (key, (columns, _)) in enumerate(kinds.items()):
        put(account, key, block_index=place, **columns)
    assert restored_deliveries.doubt_unsent(error=error) == 3
    names = ("state", "error", "lease_until")
    found = {row[0]: row[1:] for row in Delivery.objects.values_list("dedupe_key", *names)}
    expected = {key: (*kept, None) for key, (_, kept) in kinds.items() if kept is not None}
    assert found == expected


@pytest.mark.parametrize("columns", [DOUBT, {"doubt_chat": "1:42"}, {"after_id": 0}])
@pytest.mark.parametrize("state", State)
def test_no_message_is_searched_for(
    account: ChannelAccount, columns: dict[str, Any], state: str
) -> None:
    row = put(account, "k", state=state, **columns)
    restored_deliveries.doubt_unsent(error="")
    row.refresh_from_db()
    assert (row.doubt_chat, row.after_id) == ("", None)


@pytest.mark.parametrize(
    ("minutes", "name", "was_shown"),
    [(1, "5", True), (1, "", False), (-1, "5", False), (None, "5", False)],
)
def test_an_answer_of_which_the_copy_had_a_message_may_have_grown_since(
    account: ChannelAccount,
    runs: dict[str, Run],
    minutes: int | None,
    name: str,
    was_shown: bool,
) -> None:
    """If the database was restored after the run began, and the message is its own."""
    run = runs[Run.State.HELD]
    at = None if minutes is None else run.created_at + timedelta(minutes=minutes)
    Installation.objects.update_or_create(id=1, defaults={"restored_at": at})
    put(account, "mine", run=run, external_message_id=name)
    put(account, "other", run=runs[Run.State.SUCCEEDED], external_message_id="6")
    assert restored_deliveries.was_shown_before_restore(run) is was_shown
