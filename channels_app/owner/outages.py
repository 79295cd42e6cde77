"""Report platforms that accept no deliveries: one notice at the start and one at the end.

An outage begins when a failed delivery has waited for UNDELIVERED_SECONDS; ``outage_at`` in the
account's row records that the owner was notified. Deliveries that were given up are reported once
an hour, with a button that sends them again.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from channels_app.owner import notices
from core.conversations import outbox
from core.conversations.outbox import Backlog
from core.database import transactions
from core.database.queries import Instances
from core.lib.interface_language import spoken
from core.lib.text import one_line
from core.models import ChannelAccount, Delivery

SEND_AGAIN = "send_again"
GIVEN_UP_KEY = "notice:given-up:"
PAGE = "/admin/core/delivery/?state__exact=dead"
AT_ONCE = 500


TOLD = Instances(lambda: ChannelAccount.objects.filter(outage_at__isnull=False))


def look(*, now: datetime) -> None:
    """Notify the owner of outages of accounts, and of their end. A chore."""
    waiting = outbox.backlogs()
    told = TOLD.all()
    if waiting:
        late = now - timedelta(seconds=settings.UNDELIVERED_SECONDS)
        rows = ChannelAccount.objects.filter(id__in=waiting, outage_at__isnull=True)
        for account in rows.filter(deliveries_held=""):  # refused credentials: see trouble
            if waiting[account.pk].since < late:
                notify_begin(account, waiting[account.pk], now=now)
    for account in told:
        if account.pk not in waiting and account.enabled:  # one that is off sends nothing
            notify_end(account)


def notify_begin(account: ChannelAccount, backlog: Backlog, *, now: datetime) -> None:
    """Notify the owners that an account's deliveries wait: once per outage, in any process."""
    with transactions.atomic_write():
        found = ChannelAccount.objects.filter(id=account.pk, outage_at__isnull=True)
        if not found.update(outage_at=now):
            return
        notices.notify(
            lambda: begin_text(account, backlog),
            key=f"{key_of(account, now)}:begin",
            away=account.pk,
        )


def notify_end(account: ChannelAccount) -> None:
    """Notify the owners that an account delivers again; undelivered notices are dropped. Where
    all that waited was given up or dismissed, nothing is told: nothing has left.
    """
    with transactions.atomic_write():
        began = account.outage_at
        found = ChannelAccount.objects.filter(id=account.pk, outage_at=began)
        if began is None or not found.update(outage_at=None):
            return
        key = key_of(account, began)
        outbox.take_back(Delivery.objects.filter(dedupe_key__startswith=f"{key}:begin:"))
        # In any state: one that was sent may be pending again, as an edit.
        left = Delivery.objects.filter(account=account, sent_at__gte=began, created_at__lte=began)
        if left.exists():
            notices.notify(lambda: end_text(account, began), key=f"{key}:end")


def begin_text(account: ChannelAccount, backlog: Backlog) -> str:
    """Return the notice that deliveries wait."""
    more = gettext("They are stored, and sent when it accepts them again.")
    return f"{in_words(account, backlog)} {more}"


def end_text(account: ChannelAccount, began: datetime) -> str:
    """Return the notice that they have left."""
    said = gettext("{account}: the messages that waited (told at {when} UTC) have left.")
    return said.format(account=account, when=f"{began:%Y-%m-%d %H:%M}")


def key_of(account: ChannelAccount, began: datetime) -> str:
    """Return the prefix of the dedupe keys of an outage's notices."""
    return f"notice:outage:{account.pk}:{int(began.timestamp())}"


def given_up(*, delivery: Delivery, may_have_arrived: bool = False) -> None:
    """Notify the owners, once an hour and account, of given-up deliveries, and so of those that may
    have arrived, with a button to send them again. Not of such a notice itself: each would cause
    another, without an end.
    """
    if delivery.dedupe_key.startswith(GIVEN_UP_KEY):
        return
    account, now = delivery.account, timezone.now()
    hour = int(now.timestamp()) // 3600
    kind = "unsure:" if may_have_arrived else ""
    for owner in notices.owners():
        with spoken(owner.language), transactions.atomic_write():
            said = gettext("{account}: a message could not be delivered and will not be retried.")
            if may_have_arrived:
                said = gettext(
                    "{account}: it is not known whether a message was delivered. It is not sent "
                    "again by itself."
                )
            notices.send(
                owner,
                key=f"{GIVEN_UP_KEY}{account.pk}:{hour}:{kind}{owner.pk}",
                text=said.format(account=account),
                rows=[[{"text": gettext("Send again"), "data": f"{SEND_AGAIN}:{account.pk}"}]],
                page=PAGE,
                away=account.pk,
            )


def send_again(*, account_id: int) -> int:
    """Queue an account's given-up deliveries again; return how many."""
    rows = Delivery.objects.filter(account_id=account_id, state__in=outbox.GIVEN_UP)
    return sum(
        outbox.retry(delivery_id)
        for delivery_id in rows.order_by("id").values_list("id", flat=True)[:AT_ONCE]
    )


def in_words(account: ChannelAccount, backlog: Backlog) -> str:
    """Describe an account's backlog in one sentence."""
    why = account.deliveries_held or backlog.error
    said = ngettext(
        "{account}: {count} message has not been delivered since {when} UTC ({reason}).",
        "{account}: {count} messages have not been delivered since {when} UTC ({reason}).",
        backlog.number,
    )
    return said.format(
        account=account,
        count=backlog.number,
        when=f"{backlog.since:%Y-%m-%d %H:%M}",
        reason=one_line(why, 200) or gettext("no reason was given"),
    )


def problems() -> list[str]:
    """Return the accounts with an outage as sentences for ``/readyz``."""
    late = timedelta(seconds=settings.UNDELIVERED_SECONDS)
    waiting = outbox.backlogs(older_than=late)
    rows: Iterable[ChannelAccount] = ChannelAccount.objects.filter(id__in=waiting).order_by("id")
    return [in_words(row, waiting[row.pk]) for row in rows]


def counted() -> dict[str, int]:
    """Return how many deliveries wait after a failure, and how many were given up."""
    waiting = sum(each.number for each in outbox.backlogs().values())
    return {"waiting": waiting, "given_up": outbox.dead_count()}
