"""The queries of a turn do not get slower with history: each hot query has its index."""

from itertools import count

import pytest
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.client_api import sessions
from channels_app.telegram import albums, receive, updates
from channels_app.telegram.addressing import Bot, understand
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Message,
    Run,
    RunEvent,
    User,
)
from tests.channels_app.telegram.people import message
from tests.one_turn import SENDER, one_turn
from tests.plans import BIG, Asked, analyse, listening

pytestmark = pytest.mark.django_db

MANY = 10_000
FEW = 10
# The statements of one_turn, without its INSERTs. Three of them ask for the version of assistants
# and models: it stores two runs and claims one. A sweep looks for deliveries twice: for those whose
# turn it is, and for those in doubt.
MOST_STATEMENTS = 46
# By ``grow``; others are small here, and PostgreSQL reads them as a whole.
GROWN = {*BIG} - {
    "core_job",
    "core_modelcall",
    "core_usageday",
    "core_budgetperiod",
    "core_storedfile",
    "allowlist_auditentry",
    "allowlist_unknownrequest",
    "channels_app_sourcefeedback",
}
_numbers = count()


def grow(number: int, *, account: ChannelAccount, user: User, session: ChatSession) -> None:
    """Add ``number`` people with a message each, and as many turns to ``session``."""
    now = timezone.now()
    names = User.objects.bulk_create(User(username=f"p{next(_numbers)}") for each in range(number))
    ApiKey.objects.bulk_create(
        ApiKey(user=each, name="k", prefix=f"{each.pk:012x}", digest="", scopes=["chat"])
        for each in names
    )
    ChannelIdentity.objects.bulk_create(
        ChannelIdentity(user=each, kind="im", value=str(10**9 + each.pk)) for each in names
    )
    ChatSession.objects.bulk_create(
        ChatSession(user=each, account=account, chat=each.username) for each in names
    )
    done = Run.objects.bulk_create(
        Run(session=session, user=user, origin="http", state="succeeded") for _ in range(number)
    )
    InboundMessage.objects.bulk_create(
        InboundMessage(
            account=account,
            session=session,
            user=user,
            run=run,
            chat=session.chat,
            external_update_id=f"u{run.pk}",
            external_message_id=f"m{run.pk}",
            state="answered",
            received_at=now,
        )
        for run in done
    )
    Message.objects.bulk_create(
        Message(session=session, run=run, role=role, text="words", tokens=2)
        for run in done
        for role in ("user", "assistant")
    )
    RunEvent.objects.bulk_create(RunEvent(run=run, seq=1, data="{}") for run in done)
    Delivery.objects.bulk_create(
        Delivery(
            account=account,
            session=session,
            run=run,
            dedupe_key=f"run:{run.pk}:0",
            conversation=f"{account.pk}:c:",
            state="sent",
        )
        for run in done
    )
    analyse()


def test_an_album_is_looked_for_among_the_messages_of_its_chat(
    account: ChannelAccount,
) -> None:
    """A group that talks among itself causes this query with every picture of an album."""
    now = timezone.now()
    InboundMessage.objects.bulk_create(
        InboundMessage(
            account=account,
            chat=f"c{number % 500}",
            external_message_id=f"{number}",
            received_at=now,
        )
        for number in range(5_000)
    )
    analyse()
    photo = [{"file_id": "p", "width": 1, "height": 1}]
    update = updates.read(message(chat=-100, photo=photo, media_group_id="a1"))
    assert isinstance(update, updates.NewMessage)
    with listening() as asked:
        assert not albums.is_addressed(account, update.message)
    [question] = asked
    assert "one_platform_message" in question.plan()


def test_the_answer_that_a_reply_is_to_is_looked_for_in_the_persons_conversation(
    account: ChannelAccount, user: User, session: ChatSession
) -> None:
    for value in ("555", "-100"):
        ChannelIdentity.objects.create(user=user, kind="im", value=value)
    ChatSession.objects.create(user=user, account=account, chat="-100")
    grow(2_000, account=account, user=user, session=session)
    analyse()
    said = {"message_id": 7, "from": {"id": 9, "is_bot": True}, "text": "answer"}
    update = updates.read(message("why?", user=555, chat=-100, reply_to_message=said))
    assert isinstance(update, updates.NewMessage)
    meant = understand(update.message, bot=Bot(9, "my_bot"))
    with listening() as asked:
        assert receive.with_answer_to_others(account, update.message, meant) != "why?"
    assert "one_open_session" in asked[-2].plan()
    slow = {each.sql: found for each in asked if (found := GROWN & {*each.read_whole()})}
    assert slow == {}, slow


def test_ten_thousand_messages_and_people_cost_a_turn_no_more_than_ten(
    account: ChannelAccount, user: User, session: ChatSession, woken: list[tuple[str, int]]
) -> None:
    """As many statements, and none that scans a whole table."""
    _, token = keys.create(name="k", user=user, scopes=["chat"])
    ChannelIdentity.objects.create(user=user, kind="im", value=SENDER)
    account.channel = "memory"  # one that shows reactions and delivers the answer
    account.save()

    def turn() -> list[Asked]:
        Run.objects.exclude(state="succeeded").delete()  # only work of the previous turn waits
        ApiKey.objects.update(last_used_at=timezone.now())  # recorded once a minute, not now
        User.objects.update(last_spoke_at=None)  # recorded once a second, now
        builtin_account(sessions.ORIGIN)  # cached for a while
        with listening() as asked:
            one_turn(account=account, user=user, session=session, token=token)
        return asked

    grow(FEW, account=account, user=user, session=session)
    turn()
    before = [each.sql for each in turn()]
    grow(MANY, account=account, user=user, session=session)
    after = turn()
    assert 20 < len(before) <= MOST_STATEMENTS
    assert [each.sql for each in after] == before
    slow = {each.sql: found for each in after if (found := GROWN & {*each.read_whole()})}
    assert slow == {}, slow
    # If the check found nothing here, the test would prove nothing.
    assert Asked("SELECT id FROM core_message WHERE text = %s", ["x"]).read_whole()
