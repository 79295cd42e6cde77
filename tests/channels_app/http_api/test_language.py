"""The gateway's own words in an answer of ``/inbound``: in the person's language ([D1])."""

import asyncio

import orjson
import pytest

from allowlist import keys
from channels_app.asgi.builtin_accounts import builtin_account
from core.conversations import events, runs
from core.conversations.runs import Outcome
from core.database.transactions import atomic_write
from core.messages import Message, stream_end, stream_start, text_message
from core.models import ChatSession, Run, User
from tests.core.messages.samples import SAMPLES
from tests.loops import end_tasks
from tests.redteam import gateway_data


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("language", "heading"), [("de", "Quellen"), ("", "Sources")])
def test_d1_the_sources_are_headed_in_the_language_of_the_person(
    language: str, heading: str
) -> None:
    """As on a messenger, and at ``/v1``."""
    user = User.objects.create(username="program", language=language)
    _, token = keys.create(name="program", user=user, scopes=["inbound"])
    session = ChatSession.objects.create(user=user, account=builtin_account("http"))
    run = Run.objects.create(session=session, user=user, route={})
    log: list[Message] = [
        stream_start(request_id="r", chat_id="c", trace_id="t", timestamp_ms=1),
        text_message("Paris is the capital.", message_id="A1"),
        SAMPLES["retrieval"],
        stream_end(status="completed"),
    ]
    with atomic_write():
        runs.settle_queued(
            run=run, outcome=Outcome(state="succeeded", text=""), last_seq=len(log), also=None
        )
        events.append_unheld(run=run, seq=0, messages=log)

    async def asked(path: str) -> bytes:
        try:
            heads = {"host": gateway_data.HOST, "authorization": f"Bearer {token}"}
            return (await gateway_data.call("GET", path, b"", heads)).body
        finally:
            await end_tasks()

    whole = orjson.loads(asyncio.run(asked(f"/inbound/result?run_id={run.public_id}")))
    assert f"**{heading}**" in whole["text"]
