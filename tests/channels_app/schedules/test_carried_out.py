"""A schedule on its whole way: the worker fires it, carries it out and delivers it ([H11])."""

import pytest
from django.utils import timezone

from channels_app.memory.channel import PLATFORM, say
from channels_app.worker.runner import Runner
from core.models import Occurrence, User
from tests.channels_app.running import memory_account, until
from tests.channels_app.schedules.making import chat_of, made, states


@pytest.mark.django_db(transaction=True)
def test_h11_a_schedule_is_carried_out_by_the_worker_and_arrives(
    runner: Runner, guest: User
) -> None:
    account = memory_account()
    chat = chat_of(guest, account)
    now = timezone.now()
    text = made(chat, now=now, minutes=1 / 60)
    prompt = made(chat, now=now, minutes=1 / 60, kind="prompt", text="say hello")
    until(lambda: len(PLATFORM.texts("c")) == 2)
    assert sorted(PLATFORM.texts("c")) == sorted(["⏰ take the pills", "say hello"])
    until(lambda: states(text) == ["done"] and states(prompt) == ["done"])
    one = Occurrence.objects.get(schedule=text)
    assert one.fired_at is not None
    assert one.fired_at >= one.nominal_at
    assert one.delivered_at is not None
    say(account=account, sender="556", chat="c", text="thanks", message_id="9", now=now)
    until(lambda: len(PLATFORM.texts("c")) == 3)
