"""Ask a question in the next place when its delivery has failed: still in one place, since it moves
only when it was surely not shown in the first one. One to somebody who is no owner any more goes to
another owner.
"""

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from channels_app.owner import notice_targets, notices
from channels_app.owner.notice_targets import Target
from channels_app.tool_requests import asking
from core.conversations import outbox, push_messages, tool_calls
from core.database.queries import Instances
from core.database.transactions import atomic_write
from core.models import Delivery, ToolCall, User

AT_ONCE = 1000
FAILED = "failed"


ASKED = Instances(lambda: tool_calls.waiting()[:AT_ONCE])


def look() -> None:
    """Move the questions whose delivery has failed, or that lost their owner. A chore."""
    calls = {}
    for call in ASKED.all():
        if is_left(call):
            hand_over(call)
        elif call.asked_of is not None:
            calls[asking.key_of(call, call.asked_of)] = call
    for delivery in not_shown(calls) if calls else ():
        move(calls[delivery.dedupe_key], delivery)


def is_left(call: ToolCall) -> bool:
    """Return whether a question to an owner was put to somebody who is none, or to no one."""
    user, is_own = call.asked_of, call.of_person or call.kind != ToolCall.Kind.YES
    return not is_own and (user is None or not (user.is_owner and user.is_active))


def hand_over(call: ToolCall) -> None:
    """Ask another owner, if there is one."""
    with atomic_write():
        row, user = tool_calls.locked(call), asking.owner_to_ask()
        if row is None or row.state != ToolCall.State.WAITING or user is None or not is_left(row):
            return
        row.asked_of = user
        row.save(update_fields=["asked_of"])
        asking.put(row, user)


def not_shown(keys: Iterable[str]) -> QuerySet[Delivery]:
    """Return those of these deliveries that were surely not shown, and will not be soon: refused at
    the first try, or of an account that sends nothing.

    One of which a try had an unknown outcome, or that was sent again by hand, is not among them.
    """
    surely = Delivery.objects.filter(
        external_message_id="", doubt_chat="", after_id=None, queued_at=None, tries__lte=1
    ).exclude(error__startswith=outbox.UNKNOWN)
    sends_nothing = Q(account__enabled=False) | ~Q(account__deliveries_held="")
    ended = Q(state=Delivery.State.DEAD) | Q(sends_nothing, state=Delivery.State.PENDING)
    return surely.filter(ended, dedupe_key__in=list(keys))


def move(call: ToolCall, delivery: Delivery) -> None:
    """Give up a delivery, and ask in the next place: of who was asked, else of another owner; where
    there is none, in the open web chats.
    """
    with atomic_write():
        row = tool_calls.locked(call)
        if row is None or row.state != ToolCall.State.WAITING or row.asked_of is None:
            return
        given_up = Delivery.objects.filter(
            pk=delivery.pk,
            state=delivery.state,
            attempt=delivery.attempt,
            dedupe_key=asking.key_of(row, row.asked_of),
        )
        # Its key is free for the next place, and it cannot be sent again by hand.
        key = f"{delivery.dedupe_key}:{FAILED}:{delivery.account_id}"
        if not given_up.update(state=Delivery.State.DISMISSED, dedupe_key=key):
            return
        user, target = next_place(row, row.asked_of)
        if user != row.asked_of:
            row.asked_of = user
            row.save(update_fields=["asked_of"])
            push_messages.enqueue(user_id=user.pk, kind="question", ref=row.public_id)
        asking.show_at(target, row, user)


def next_place(row: ToolCall, asked: User) -> tuple[User, Target | None]:
    """Return who is asked next, and where: a chat in which the question has not failed."""
    is_for_any_owner = row.kind == ToolCall.Kind.YES and not row.of_person
    people = [asked, *(notices.owners() if is_for_any_owner else ())]
    for user in people:
        prefix = f"{asking.key_of(row, user)}:{FAILED}:"
        keys = Delivery.objects.filter(dedupe_key__startswith=prefix)
        failed = set(keys.values_list("account_id", flat=True))
        for target in notice_targets.all_of(user):
            if target.account.pk not in failed:
                return user, target
    return asked, None
