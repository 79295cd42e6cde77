"""Albums in a group whose items come to several processes at once."""

import json

import pytest

from channels_app.telegram import receive
from channels_app.telegram.addressing import Bot
from core.models import ChannelIdentity, InboundMessage, Run, User
from tests.allowlist.in_parallel import run_in_parallel
from tests.channels_app.running import guest, owner, telegram_account
from tests.channels_app.telegram.people import Params, message

__all__ = ["guest", "owner"]
pytestmark = pytest.mark.django_db(transaction=True)
BOT = Bot(999, "my_bot")
ITEMS = 8
MARK = [{"type": "mention", "offset": 0, "length": 7}]


def test_items_that_come_at_once_are_all_of_the_album(owner: User, guest: User) -> None:
    """One of them addresses the bot; none of the others may miss it."""
    ChannelIdentity.objects.create(user=owner, kind="im", channel="telegram", value="-100")
    row = telegram_account(base="http://x")

    def take(number: int) -> str:
        album, place = divmod(number, ITEMS)
        more: Params = {"caption": "@my_bot look", "caption_entities": MARK} if place == 5 else {}
        photo = [{"file_id": f"{number}", "width": 1}]
        update = message(
            user=556,
            chat=-100,
            message_id=100 + number,
            photo=photo,
            media_group_id=f"g{album}",
            **more,
        )
        update["update_id"] = number + 1
        return receive.take(row=row, bot=BOT, value=update, raw=json.dumps(update).encode())

    run_in_parallel(take, times=3 * ITEMS, threads=ITEMS)
    assert not InboundMessage.objects.filter(state="ignored").exists()
    assert InboundMessage.objects.count() == 3 * ITEMS
    assert not Run.objects.filter(route__media=[]).exists()
