"""Which ends of runs are announced, and whether a person has a page in view."""

from typing import Any

import pytest
from django.utils import timezone

from channels_app.push import announcing, presence
from core.conversations import push_messages
from core.models import ChannelAccount, Run, User
from core.signals import pubsub
from tests.channels_app.push.conftest import answered

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("state", "options", "kind"),
    [
        ("succeeded", {}, "answer"),
        ("failed", {}, "answer"),
        ("succeeded", {"schedule": 7}, "reminder"),
        ("succeeded", {"schedule": None}, "answer"),
        ("cancelled", {}, None),
        ("cancelled", {"schedule": 7}, None),
    ],
)
def test_w60_an_end_that_its_person_did_not_ask_for_is_announced(
    ann: User,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    options: dict[str, Any],
    kind: str | None,
) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr(push_messages, "enqueue", lambda **given: told.append(given))
    run = answered(ann, "Blue.", options=options, finished_at=timezone.now())
    announcing.answered(run, state)
    expected = {"user_id": ann.pk, "kind": kind, "ref": run.public_id}
    assert told == ([] if kind is None else [expected])
    ChannelAccount.objects.update(channel="telegram")
    announcing.answered(Run.objects.get(pk=run.pk), state)
    assert len(told) == (kind is not None)


@pytest.mark.parametrize(("processes", "expected"), [(0, False), (1, True), (2, True)])
def test_w60_a_page_is_in_view_where_a_process_listens_for_its_person(
    monkeypatch: pytest.MonkeyPatch, processes: int, expected: bool
) -> None:
    asked: list[list[pubsub.Frame]] = []

    def publish(frames: list[pubsub.Frame]) -> int:
        asked.append(frames)
        return processes

    monkeypatch.setattr(pubsub, "publish", publish)
    assert presence.is_visible(7) is expected
    assert asked == [[{"keys": ["visible:7"], "kind": "visible"}]]
    assert presence.key_of(7) == "visible:7"
