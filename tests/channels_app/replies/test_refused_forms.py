"""A rich message that its platform refuses is sent as the ordinary ones for which it stands."""

from typing import Any

import pytest

from channels_app.base import Block, ChannelError
from channels_app.replies.outbound import put_block, use_ordinary_form
from core.conversations import inbox, outbox
from core.database.transactions import atomic_write
from core.models import Delivery, Run, User
from tests.channels_app.running import memory_account

pytestmark = pytest.mark.django_db
State = Delivery.State
REFUSED = ChannelError("no such form", permanent=True, trouble="form")
ROUTE = {"chat": "42", "thread": "5", "reply_to": "9"}
RICH: Block = {"text": "one", "buttons": [], "rich": [{"type": "table"}]}
PHOTO: Block = {"kind": "photo", "image": 0}
FILE: Block = {"kind": "document", "file": "f"}


@pytest.fixture
def run(db: None) -> Run:
    """Return a run whose answer goes to chat 42."""
    account, user = memory_account(), User.objects.create(username="ada")
    with atomic_write():
        session = inbox.open_session(user=user, account=account, chat="42")
    return Run.objects.create(session=session, user=user, route={"account": account.id, **ROUTE})


def put(run: Run, *payloads: Block) -> Delivery:
    """Put the blocks of an answer into the outbox; return the first one, claimed."""
    with atomic_write():
        first, *_ = [put_block(run=run, index=at, payload=each) for at, each in enumerate(payloads)]
    found = outbox.claim(delivery_id=first.id)
    assert found is not None
    return found


def texts(*words: str) -> list[Block]:
    """Return ordinary messages."""
    return [{"text": word} for word in words]


def rows(run: Run) -> list[Delivery]:
    """Return the blocks of an answer, in their order."""
    return list(Delivery.objects.filter(run=run).order_by("block_index"))


def shown(run: Run) -> list[Block]:
    """Return what the blocks of an answer show, in their order."""
    return [row.payload for row in rows(run)]


def test_it_is_queued_at_once_with_those_after_it(run: Run) -> None:
    """Its other values stay. Only the first message is a reply."""
    delivery = put(run, {**RICH, "more": texts("two", "three")})
    use_ordinary_form(delivery=delivery, error=REFUSED)
    assert shown(run) == [{"text": "one", "buttons": []}, *texts("two", "three")]
    first, *rest = rows(run)
    assert (first.id, first.state, first.retry_at) == (delivery.id, State.PENDING, None)
    assert (first.tries, first.lease_until) == (0, None)
    assert [row.target for row in rest] == [{**ROUTE, "reply_to": ""}] * 2
    assert outbox.claim(delivery_id=first.id) is not None


def test_files_that_wait_behind_it_move_back(run: Run) -> None:
    delivery = put(run, {**RICH, "more": texts("two")}, PHOTO, FILE)
    use_ordinary_form(delivery=delivery, error=REFUSED)
    assert shown(run)[1:] == [*texts("two"), PHOTO, FILE]


def test_those_after_it_come_behind_a_file_that_was_sent(run: Run) -> None:
    delivery = put(run, {**RICH, "more": texts("two", "three")}, PHOTO, FILE)
    Delivery.objects.filter(run=run, block_index=1).update(state=State.SENT)
    use_ordinary_form(delivery=delivery, error=REFUSED)
    assert shown(run)[1:] == [PHOTO, *texts("two", "three"), FILE]
    assert [row.state for row in rows(run)[1:]] == [State.SENT, *[State.PENDING] * 3]


@pytest.mark.parametrize("payload", [RICH, {**RICH, "more": []}, {"text": "one", "buttons": []}])
def test_one_that_fits_into_a_message_is_that_message(run: Run, payload: Block) -> None:
    delivery = put(run, payload, PHOTO)
    use_ordinary_form(delivery=delivery, error=REFUSED)
    assert shown(run) == [{"text": "one", "buttons": []}, PHOTO]


@pytest.mark.parametrize("index", [1, 3])
def test_one_that_is_not_the_first_block_has_them_behind_itself(run: Run, index: int) -> None:
    blocks: list[Any] = [*texts(*"abcd"), PHOTO]
    blocks[index] = {**RICH, "more": texts("two")}
    put(run, *blocks)
    Delivery.objects.filter(run=run, block_index__lt=index).update(state=State.SENT)
    delivery = outbox.claim(delivery_id=rows(run)[index].id)
    assert delivery is not None
    use_ordinary_form(delivery=delivery, error=REFUSED)
    blocks[index : index + 1] = [{"text": "one", "buttons": []}, *texts("two")]
    assert shown(run) == blocks


def test_an_answer_that_has_changed_meanwhile_stays_and_is_sent(run: Run) -> None:
    delivery = put(run, {**RICH, "more": texts("two")})
    changed = {**RICH, "text": "changed", "more": texts("two", "three")}
    with atomic_write():
        outbox.change(delivery=rows(run)[0], payload=changed)
    use_ordinary_form(delivery=delivery, error=REFUSED)
    assert shown(run) == [changed]
    assert outbox.claim(delivery_id=delivery.id) is not None


def test_answers_of_other_runs_stay_as_they_are(run: Run) -> None:
    other = Run.objects.create(session=run.session, user=run.user, route=run.route)
    delivery = put(run, {**RICH, "more": texts("two")})
    with atomic_write():
        for index, payload in enumerate((RICH, PHOTO)):
            put_block(run=other, index=index, payload=payload)
    use_ordinary_form(delivery=delivery, error=REFUSED)
    assert shown(run)[1:] == texts("two")
    assert shown(other) == [RICH, PHOTO]


def test_a_message_of_no_run_has_none_behind_it(run: Run) -> None:
    """Only answers are rich."""
    delivery = put(run, {**RICH, "more": texts("two")})
    Delivery.objects.update(run=None)
    delivery.refresh_from_db()
    use_ordinary_form(delivery=delivery, error=REFUSED)
    assert [row.payload for row in Delivery.objects.all()] == [{"text": "one", "buttons": []}]
