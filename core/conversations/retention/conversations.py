"""Conversations that are due: old ones without anything in them."""

from datetime import datetime

from django.db.models import Exists, ForeignObjectRel, OuterRef, QuerySet
from django.db.models.functions import Coalesce

from core.conversations.retention import rules
from core.conversations.retention.passes import Selections, among, of_table
from core.conversations.retention.rules import Columns
from core.models import ChatSession, RetentionRule

COLUMNS = Columns("user", "account", "")
PAGE = 200
CONVERSATIONS = "empty conversations"


def selections(rule: RetentionRule, now: datetime) -> Selections:
    """Yield the conversations that are due by a rule, in pages of all: most are not empty."""
    before = rules.cutoff(rule, now)
    scope = rules.scope(rule, COLUMNS)
    last = 0
    theirs = ChatSession.objects.filter(scope).order_by("pk")
    while page := list(theirs.filter(pk__gt=last).values_list("pk", flat=True)[:PAGE]):
        yield None
        rows = due(theirs.filter(pk__gt=last, pk__lte=page[-1]), before)
        yield of_table(CONVERSATIONS, rows, most=PAGE, remove=remove)
        last = page[-1]


def due(rows: QuerySet[ChatSession], before: datetime) -> QuerySet[ChatSession]:
    """Return those that were quiet since before then, and that no row of any table names."""
    rows = rows.alias(quiet_since=Coalesce("last_message_at", "created_at"))
    rows = rows.filter(quiet_since__lt=before, flush_at__isnull=True)
    for relation in ChatSession._meta.get_fields(include_hidden=True):
        if isinstance(relation, ForeignObjectRel):
            own = relation.related_model._default_manager
            name = relation.field.name
            rows = rows.exclude(Exists(own.filter(**{name: OuterRef("pk")})))
    return rows


def remove(rows: QuerySet[ChatSession], ids: list[int]) -> int:
    """Remove those of these conversations that are still empty.

    They are looked at again once they are locked: a message that was stored meanwhile is seen now,
    and the next one waits and finds no conversation.
    """
    locked = list(among(rows, ids).values_list("pk", flat=True))
    mine = list(rows.filter(pk__in=locked).values_list("pk", flat=True))
    return ChatSession.objects.filter(pk__in=mine).delete()[0]
