"""Streams of a bridge's senders that are resumed: each sender has a limit of their own [RI18], and
all end with the key [A9]."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.utils import timezone
from pytest_django import Settings

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi.principal import Principal
from channels_app.client_api import acceptance
from channels_app.client_api.responses import fields, stored
from core.database import transactions
from core.database.transactions import in_thread
from core.models import ChannelAccount, ChannelIdentity, Run, User
from gateway_project.asgi import application
from tests.loops import end_tasks

pytestmark = pytest.mark.django_db(transaction=True)
communicator: Any = ApplicationCommunicator
SENDERS = ("ann", "bob", "cyd")
ADDRESSES = {
    "/inbound": ("/runs/{run}/events", ""),
    "/inbound with the sender": ("/runs/{run}/events", "user_id={sender}"),
    "/v1/responses": ("/v1/responses/resp_{run}", "stream=true"),
}


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    """End the hub of this test's loop, and the database threads, after the test."""
    yield
    await end_tasks()
    transactions.close_pool()


def begun() -> tuple[str, dict[str, Run]]:
    """Return the key of a bridge, and a run that has not ended for each of its senders."""
    account = ChannelAccount.objects.create(channel="bridge", name="b")
    _, token = keys.create(name="b", account=account, scopes=["chat", "inbound"])
    runs: dict[str, Run] = {}
    for name in SENDERS:
        user = User.objects.create(username=name, only_listed=True)
        ChannelIdentity.objects.create(user=user, kind="im", channel="bridge", value=name)
        asked = fields.read({"model": "default", "input": "Hello", "user": name})
        messages = [{"role": "user", "content": "Hello"}]
        ask = acceptance.Ask(
            model="", messages=messages, user=name, more=stored.kept_of(asked, "en")
        )
        run = acceptance.accept(Principal(account=account), ask, "", None).run
        assert run is not None
        runs[name] = run
    return token, runs


@asynccontextmanager
async def resumed(token: str, path: str, query: str) -> AsyncIterator[tuple[int, Any]]:
    """Ask for a stream; return the status and the connection, while it is open."""
    headers = [(b"host", b"testserver"), (b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode()}
    wire = communicator(application, {**scope, "headers": headers, "client": ("127.0.0.9", 1)})
    await wire.send_input({"type": "http.request", "body": b"", "more_body": False})
    begin = await wire.receive_output(30)
    try:
        yield begin["status"], wire
    finally:
        await wire.send_input({"type": "http.disconnect"})
        await wire.wait(30)


@pytest.mark.parametrize("where", ADDRESSES)
async def test_a9_a_stream_ends_with_its_key_though_the_run_goes_on(where: str) -> None:
    """Another key began the run: nothing cancels it."""
    path, query = ADDRESSES[where]
    token, runs = await in_thread(begun)
    address = path.format(run=runs["ann"].public_id)

    def revoke() -> None:
        for key in ApiKey.objects.all():
            keys.revoke(key=key, actor="test", now=timezone.now())

    async with resumed(token, address, query.format(sender="ann")) as (status, wire):
        assert status == 200
        await in_thread(revoke)
        await wire.wait(30)
    assert await in_thread(lambda: Run.objects.get(pk=runs["ann"].pk).state) == Run.State.QUEUED


@pytest.mark.parametrize("where", ADDRESSES)
async def test_ri18_the_streams_of_one_sender_do_not_limit_the_others(
    where: str, settings: Settings
) -> None:
    """All of them come back at once when a web process was restarted."""
    settings.MAX_STREAMS_PER_USER = 1
    path, query = ADDRESSES[where]
    token, runs = await in_thread(begun)
    async with AsyncExitStack() as opened:

        async def status_of(sender: str) -> int:
            run = runs[sender].public_id
            again = resumed(token, path.format(run=run), query.format(sender=sender))
            status, _ = await opened.enter_async_context(again)
            return status

        assert [await status_of(each) for each in SENDERS] == [200] * len(SENDERS)
        assert await status_of("ann") == 429
