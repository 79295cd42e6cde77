"""A reminder that is made in a turn whose worker dies: the next attempt makes no other one."""

from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import inbound
from channels_app.worker.runner import Runner
from core.conversations import inbox
from core.models import Run, Schedule, ToolCall, User
from core.providers import registry
from core.providers.base import ChatMessage
from core.providers.scripted import Scripted
from tests.channels_app.running import runner, until

__all__ = ["runner"]
pytestmark = pytest.mark.django_db(transaction=True)
REMINDER = {
    "tool": "schedule",
    "arguments": {
        "action": "create",
        "text": "call Ada",
        "in_minutes": 60,
        "time_zone": "Europe/Berlin",
    },
}


class AskedTwice(Scripted):
    """A model that makes a reminder, and hangs when it has the result; asked anew it makes it by a
    call with another id, as vendors' models do.
    """

    def _steps(self, messages: list[ChatMessage], said: str) -> list[dict[str, Any]]:
        del said
        if self.calls <= 2:
            return [REMINDER] if self.calls == 1 else [{"hang": True}]
        if messages[-1]["role"] == "tool":
            return [{"text": "It is done."}]
        return [{"tool": "current_time", "arguments": {}}, REMINDER]


def test_h10_a_turn_that_is_repeated_makes_no_second_reminder(
    runner: Runner, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SWEEP_SECONDS = 1
    model = AskedTwice([])
    monkeypatch.setattr(registry, "of_settings", lambda: model)
    receipt = inbound.receive_personal(
        user=User.objects.create(username="guest"),
        draft=inbox.Draft(account=builtin_account("http"), text="remind me to call Ada"),
        session_id="",
        now=timezone.now(),
    )
    assert receipt.run is not None
    run = Run.objects.filter(pk=receipt.run.pk)
    until(lambda: model.calls == 2)
    run.update(state="queued", lease_until=None, worker="")  # as if its worker had died
    until(run.filter(state__in=Run.FINAL).exists, seconds=5)
    assert (run.get().state, run.get().attempt) == ("succeeded", 2)
    assert "It is done." in run.get().result["text"]
    assert Schedule.objects.count() == 1
    assert ToolCall.objects.get().state == "done"
