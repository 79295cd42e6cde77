"""[C1] The webhook of a channel of another package: the gateway that docs/channels.md shows."""

import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allowlist.models import UnknownRequest
from channels_app import registry
from channels_app.base import webhook_url
from channels_app.delivery.sending import account_of
from channels_app.intake import slash_commands
from core.lib.encryption import encrypt
from core.models import ChannelAccount, InboundMessage, User
from gateway_project.home import BASE_DIR
from tests.channels_app.running import owner
from tests.core.tools.installed import installed
from tests.loops import end_tasks
from tests.redteam.gateway_data import Answer, call

__all__ = ["owner"]
DOCUMENT = (BASE_DIR / "docs" / "channels.md").read_text(encoding="utf-8")
GIVEN = "a-webhook-secret"
PICTURE = "data:image/png;base64,aGVsbG8="
CODE = """
import threading

from latchkey_example import Notebook, NotebookGateway

LOADED_IN = threading.current_thread()

{shown}

class Gateway(PigeonGateway, NotebookGateway):
    pass


class Pigeon(Notebook):
    id = "pigeon"
    gateway = Gateway()


CHANNEL = Pigeon()
"""
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChannelAccount]:
    """Return an account of the installed channel."""
    shown = re.search(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    assert shown is not None
    monkeypatch.syspath_prepend(str(BASE_DIR / "docs" / "example_channel"))
    points = {"pigeon": "latchkey_scratch:CHANNEL"}
    code = CODE.replace("{shown}", shown[1])
    with installed(tmp_path, points=points, code=code, group=registry.GROUP):
        yield ChannelAccount.objects.create(
            channel="pigeon",
            name="my loft",
            config={"path": str(tmp_path / "notes.txt")},
            secrets=encrypt({"secret": GIVEN}),
        )
    sys.modules.pop("latchkey_example", None)


async def sent(account: ChannelAccount, body: Any, given: str = GIVEN) -> Answer:
    """Call the webhook as the platform does."""
    address = webhook_url(account_of(account), base_url="").replace("%20", " ")
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        return await call("POST", address, raw, {"host": "testserver", "x-pigeon-secret": given})
    finally:
        await end_tasks()


def said(text: str, *, sender: str = "555", update: str = "1", private: bool = True) -> Any:
    return {
        "id": update,
        "from": sender,
        "chat": f"chat of {sender}",
        "private": private,
        "pictures": [PICTURE],
        "text": text,
    }


async def test_c1_a_message_is_stored_once_with_its_files(
    account: ChannelAccount, owner: User
) -> None:
    for _ in range(2):
        answer = await sent(account, said("Coo"))
        assert (answer.status, answer.body) == (200, b'{"ok":true}')
    message = await InboundMessage.objects.aget()
    assert (message.text, message.user_id, message.account_id) == ("Coo", owner.id, account.id)
    assert message.media == [{"kind": "image", "url": PICTURE}]


@pytest.mark.parametrize("sender", ["555", "700"])
async def test_c1_words_that_a_database_refuses_are_cleaned(
    sender: str, account: ChannelAccount, owner: User
) -> None:
    """Also in names and addresses of files: a call that fails is sent again and again."""
    call = said("a\x00b\ud800", sender=sender) | {"pictures": ["https://a.example/\x00\ud800"]}
    assert (await sent(account, call)).status == 200
    message = await InboundMessage.objects.aget()
    assert (message.text, message.media[0]["url"]) == ("ab\ufffd", "https://a.example/\ufffd")


@pytest.mark.parametrize("worse", ["a\x00b", "a\ud800b", "x" * 10_000])
@pytest.mark.parametrize("sender", ["555", "700"])
async def test_c1_ids_that_a_database_refuses_are_no_failure(
    sender: str, worse: str, account: ChannelAccount, owner: User
) -> None:
    """A call that fails is sent again for ever. Without a chat nothing can be answered; without
    another id it can, once.
    """
    for place in ("from", "chat"):
        for private in (True, False):
            call = said("Coo", sender=sender, private=private) | {place: worse}
            assert (await sent(account, call)).status == 200
    assert await InboundMessage.objects.acount() == 0
    for _ in range(2):
        assert (await sent(account, said("Coo", sender=sender, update=worse))).status == 200
    message = await InboundMessage.objects.aget()
    assert (message.text, message.external_message_id) == ("Coo", "")


async def test_c1_a_number_may_be_the_id_of_a_message(account: ChannelAccount, owner: User) -> None:
    """A channel of another package, written for 0.1.0, passes on what its platform sends."""
    for _ in range(2):
        assert (await sent(account, said("Coo") | {"id": 17})).status == 200
    message = await InboundMessage.objects.aget()
    assert (message.external_update_id, message.external_message_id) == ("17", "17")


async def test_c1_a_file_beyond_the_quota_is_answered(
    account: ChannelAccount, owner: User, settings: Any
) -> None:
    """With words about it: a call that is refused is sent again for ever."""
    settings.MAX_FILES_PER_USER = 1
    papers = [f"data:text/plain;base64,{each}" for each in ("aGVsbG8=", "aGVsbG8h", "%%%")]
    assert (await sent(account, said("Coo") | {"pictures": papers})).status == 200
    message = await InboundMessage.objects.aget()
    assert [item["url"] for item in message.media] == papers


@pytest.mark.parametrize("sender", ["555", "700"])
async def test_c1_words_behind_a_command_are_cleaned(
    sender: str, account: ChannelAccount, owner: User
) -> None:
    """Every one: the text after ``/new`` and a name that is looked for."""
    for name in slash_commands.ANSWERS:
        call = said(f"/{name} a\x00b\ud800", sender=sender, update=name)
        call["pictures"] = []
        assert (await sent(account, call)).status == 200, name


async def test_c1_the_first_call_loads_channels_beside_the_event_loop(
    account: ChannelAccount, owner: User
) -> None:
    """A package may be large: streams would stand still meanwhile."""
    await sent(account, said("Coo"))
    module: Any = sys.modules["latchkey_scratch"]
    assert module.LOADED_IN is not threading.current_thread()


async def test_c1_the_message_of_an_unknown_sender_is_held(
    account: ChannelAccount, owner: User
) -> None:
    assert (await sent(account, said("Let me in", sender="700"))).status == 200
    assert (await UnknownRequest.objects.aget()).sender == "700"


@pytest.mark.parametrize("body", [said("Coo"), b"no json", b""])
async def test_c1_a_forged_call_changes_nothing(account: ChannelAccount, body: Any) -> None:
    answer = await sent(account, body, given="another")
    assert (answer.status, await InboundMessage.objects.acount()) == (403, 0)


async def test_c1_a_call_that_fails_is_logged_and_sent_again(
    account: ChannelAccount, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await sent(account, b"no json")).status == 500
    assert "JSONDecodeError" in caplog.text


async def test_c1_a_disabled_account_and_a_channel_without_a_webhook_are_not_found(
    account: ChannelAccount,
) -> None:
    await ChannelAccount.objects.filter(id=account.id).aupdate(enabled=False)
    other = await ChannelAccount.objects.acreate(channel="bridge", name="mail")
    assert [(await sent(row, said("Coo"))).status for row in (account, other)] == [404, 404]


async def test_c1_a_call_has_the_size_of_an_update(account: ChannelAccount, settings: Any) -> None:
    settings.TELEGRAM_MAX_BODY_BYTES = 1000
    assert (await sent(account, b"x" * 1001)).status == 413
