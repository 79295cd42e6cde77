"""Stored files that are due: the bytes first, then the row.

A row whose bytes are gone is still due: after a crash between the two it goes with the next pass.
"""

from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from core.conversations.retention import rules
from core.conversations.retention.open_runs import open_run
from core.conversations.retention.passes import Selections, among, of_table
from core.conversations.retention.rules import Columns
from core.files import storage
from core.models import ChatSession, InboundMessage, RetentionRule, Run, StoredFile

COLUMNS = Columns("user", "session__account", "")
AT_ONCE = 25
FILES = "files"


def selections(rule: RetentionRule, now: datetime) -> Selections:
    """Yield the files that are due by a rule."""
    yield of_table(FILES, due(rule, now), most=AT_ONCE, remove=remove)


def due(rule: RetentionRule, now: datetime) -> QuerySet[StoredFile]:
    """Return the files whose person has nothing under way that may read them."""
    rows = StoredFile.objects.filter(created_at__lt=rules.cutoff(rule, now))
    rows = rows.filter(rules.scope(rule, COLUMNS))
    return rows.exclude(is_busy()).exclude(open_run(now)).order_by("created_at")


def is_busy() -> Q:
    """Return the condition that a file's person has an unfinished run, or a message that waits."""
    runs = Run.objects.filter(session__user=OuterRef("user"), state__in=Run.UNFINISHED)
    batches = ChatSession.objects.filter(user=OuterRef("user"), flush_at__isnull=False)
    waiting = InboundMessage.objects.filter(
        user=OuterRef("user"), run__isnull=True, state=InboundMessage.State.RECEIVED
    )
    return Q(Exists(runs)) | Q(Exists(batches)) | Q(Exists(waiting))


def remove(rows: QuerySet[StoredFile], ids: list[int]) -> int:
    """Remove those of these files that are still due; one that the disk refuses to remove stays."""
    gone = [file.pk for file in among(rows, ids) if storage.is_unlinked(file)]
    return StoredFile.objects.filter(pk__in=gone).delete()[0]
