"""Old rows of every kind, by the owner's rules: the due ones, and the chore that removes them and
folds event logs.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from itertools import chain

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Substr

from allowlist import audit_blanking
from allowlist.models import UnknownRequest
from channels_app.owner import auto_replies
from channels_app.tool_requests import asking
from core.conversations.retention import (
    conversations,
    counts,
    deliveries,
    event_logs,
    files,
    history,
    log_folding,
    passes,
    usage,
)
from core.conversations.retention.passes import Counts, Select, Selections
from core.lib.ids import public_id
from core.models import RetentionRule, ToolCall

logger = logging.getLogger(__name__)

STEPS = 10  # transactions, or pages that are looked at, between two pauses
REQUEST = "notice:request:"
QUESTION = f"{asking.PREFIX}:"
ID_LENGTH = len(public_id())


def selections(rule: RetentionRule, now: datetime) -> Selections:
    """Yield what is due by a rule."""
    return SELECT[RetentionRule.Kind(rule.kind)](rule, now)


def besides() -> Q:
    """Return the condition of deliveries without a run that no one needs: not of a request or a
    question that is open, nor the only reply to an unknown sender, which its key keeps the only
    one.
    """
    reply = Q(dedupe_key__startswith=auto_replies.DENIED)
    requests = UnknownRequest.objects.filter(
        public_id=named_after(REQUEST), state=UnknownRequest.State.PENDING
    )
    questions = ToolCall.objects.filter(
        public_id=named_after(QUESTION), state=ToolCall.State.WAITING
    )
    return ~reply & ~Q(Exists(requests)) & ~Q(Exists(questions))


def named_after(prefix: str) -> Substr:
    """Return the public id in a delivery's key after ``prefix``."""
    return Substr(OuterRef("dedupe_key"), len(prefix) + 1, ID_LENGTH)


SELECT: dict[RetentionRule.Kind, Select] = {
    RetentionRule.Kind.EVENTS: event_logs.selections,
    RetentionRule.Kind.FILES: files.selections,
    RetentionRule.Kind.DELIVERIES: partial(deliveries.selections, besides=besides()),
    RetentionRule.Kind.AUDIT: audit_blanking.selections,
    RetentionRule.Kind.CALLS: usage.calls,
    RetentionRule.Kind.USAGE: usage.sums,
    RetentionRule.Kind.CONVERSATIONS: conversations.selections,
    RetentionRule.Kind.MESSAGES: history.selections,
}


def due(*, now: datetime) -> list[tuple[RetentionRule, Counts]]:
    """Return what each rule would remove now, by table. A dry run: changes nothing."""
    return passes.counted(selections, now=now)


def count_next(*, now: datetime) -> bool:
    """Count what one rule would remove; return whether there was one to count."""
    rule = counts.take(now=now)
    if rule is None:
        return False
    counts.store(passes.count(selections, rule, now=now), rule=rule, taken_at=now)
    return True


def remove(*, now: datetime) -> Iterator[Counts]:
    """Remove what is due; yield after each transaction how many rows it removed."""
    return passes.remove_due(selections, now=now)


def everything(*, now: datetime) -> Iterator[Counts]:
    """Fold event logs, and remove what is due; yield as :func:`remove` does."""
    return chain(log_folding.fold(now=now), remove(now=now))


class Chore:
    """Folds event logs and removes old rows, a few transactions at a time; a new process begins
    anew.
    """

    def __init__(self) -> None:
        self._pass: Iterator[Counts] | None = None
        self._removed: Counter[str] = Counter()

    def go_on(self, *, now: datetime) -> bool:
        """Remove a bounded number of rows; return whether there may be more."""
        current, self._pass = self._pass or everything(now=now), None  # an error ends this pass
        for _ in range(STEPS):
            removed = next(current, None)
            if removed is None:
                self._report()
                return False
            self._removed.update(removed)
        self._pass = current
        return True

    def _report(self) -> None:
        """Log what a pass has joined and removed."""
        if found := +self._removed:
            said = ", ".join(f"{count} {table}" for table, count in found.items())
            logger.info("old rows: %s", said)
        self._removed.clear()
