"""kill -9 around the sending of a message (W60)."""

import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from channels_app.push import keys
from core.conversations import push_messages
from core.models import PushMessage, User
from tests import ROOT
from tests.channels_app.push.conftest import Enable, answered
from tests.channels_app.push.dying_sender import POINTS
from tests.channels_app.push.service import PushService

# Requests that the service has after the death and one more sending.
REQUESTS = {
    "after the claim": 1,
    "before the request": 1,
    "after the request": 2,
    "before the record": 2,
    "after the record": 1,
}


def run(point: str, message: PushMessage, service: PushService) -> int:
    """Let a process of its own send the message; return its exit code."""
    name = str(connection.settings_dict["NAME"])
    arguments = [point, str(message.pk), str(service.port), str(service.folder / "push.pem"), name]
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "gateway_project.settings"}
    command = [sys.executable, "-m", "tests.channels_app.push.dying_sender", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, timeout=120, check=False)
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_w60_a_worker_that_is_killed_loses_no_message_and_shows_none_twice(
    service: PushService, ann: User, enable: Enable, point: str
) -> None:
    assert settings.GATEWAY_ENCRYPTION_KEYS
    browser, _ = enable(ann)
    keys.public_key()
    message = told(ann)
    assert run(point, message, service) == -signal.SIGKILL
    PushMessage.objects.filter(state="sending").update(
        lease_until=timezone.now() - timedelta(seconds=1)
    )
    for pk in push_messages.due():
        assert run("none", PushMessage.objects.get(pk=pk), service) == 0
    message.refresh_from_db()
    assert message.state == "sent"
    tags = [browser.read(got)["tag"] for got in service.received]
    assert tags == [message.tag] * REQUESTS[point], "a browser shows one for a tag"


def told(user: User) -> PushMessage:
    ref = answered(user, "Blue.").public_id
    push_messages.enqueue(user_id=user.pk, kind="answer", ref=ref)
    return PushMessage.objects.get(ref=ref)
