"""Data about a person in rows that are not theirs by a key: notices, requests, sums, logs.

Each function finds its rows by what names them, so it runs while the person's rows are there; all
may run again.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.admin.models import LogEntry
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models import Q, QuerySet

from allowlist import audit, pending_count
from allowlist.models import ApiKey, AuditEntry, LinkAttempt, UnknownRequest
from core.database import dependents
from core.database.transactions import atomic_write
from core.models import (
    AssistantBinding,
    Budget,
    ChatSession,
    Delivery,
    InboundMessage,
    ModelCall,
    ModelTrouble,
    Run,
    ToolCall,
    ToolRule,
    UsageDay,
    User,
)
from core.signals import forgetting
from gateway_project.personal_data import words
from gateway_project.personal_data.tables import SECTIONS
from gateway_project.personal_data.words import BLANK, Words, with_texts

AT_ONCE = 200
Chat = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Traces:
    """All that names a person. ``refs``: public ids of their rows; ``chats``: those that no other
    person uses, by account; ``runs``, ``received``: keys.
    """

    user: User
    words: Words
    refs: frozenset[str]
    chats: frozenset[Chat]
    runs: frozenset[str]
    received: frozenset[str]


def of(user: User) -> Traces:
    """Read what names a person."""
    refs = {
        public_id
        for condition in [*words.senders(user), Q(granted_user=user)]
        for public_id in UnknownRequest.objects.filter(condition).values_list(
            "public_id", flat=True
        )
    }
    for model, path in ((Run, "user"), (ChatSession, "user"), (ToolCall, "run__user")):
        rows = model._default_manager.filter(**{path: user})
        refs |= set(rows.values_list("public_id", flat=True))
    mine = set(ChatSession.objects.filter(user=user).values_list("account_id", "chat"))
    chats = {each for each in mine if each[1] and not is_shared(each, user)}
    return Traces(
        user,
        words.of(user),
        frozenset(refs),
        frozenset(chats),
        frozenset(str(each) for each in Run.objects.filter(user=user).values_list("pk", flat=True)),
        frozenset(
            str(each)
            for each in InboundMessage.objects.filter(user=user).values_list("pk", flat=True)
        ),
    )


def is_shared(chat: Chat, user: User) -> bool:
    others = ChatSession.objects.filter(account_id=chat[0], chat=chat[1]).exclude(user=user)
    return others.exists()


def sign_out(user: User) -> None:
    """Remove the web sessions of a person, and the counts of their wrong passwords."""
    signed_in = [
        session.pk
        for session in Session.objects.iterator(chunk_size=AT_ONCE)
        if session.get_decoded().get(SESSION_KEY) == str(user.pk)
    ]
    dependents.remove(Session.objects.filter(pk__in=signed_in))
    names = [each for each in (user.username, user.email) if each]
    for model in (AccessAttempt, AccessFailureLog, AccessLog):
        dependents.remove(model._default_manager.filter(username__in=names))


def remove_all(traces: Traces, *, actor: str, now: datetime) -> None:
    """Remove, or blank, every trace. Raises redis.RedisError."""
    notices(traces)
    requests(traces)
    rules(traces)
    sums(traces.user)
    forgetting.forget_runs(traces.refs)
    forgetting.forget_counters(traces.words.are_in)
    blank_log(traces)
    audit.blank(lambda row: blank_entry(row, traces), actor=actor, now=now)


def notices(traces: Traces) -> None:
    """Remove deliveries without a conversation that are in the person's chats, or about them."""
    rows = Delivery.objects.filter(session__isnull=True, run__isnull=True).order_by("pk")
    about = [row.pk for row in rows.iterator(chunk_size=AT_ONCE) if is_about(row, traces)]
    for start in range(0, len(about), AT_ONCE):
        dependents.remove(Delivery.objects.filter(pk__in=about[start : start + AT_ONCE]))


def is_about(row: Delivery, traces: Traces) -> bool:
    """Return whether a delivery is for the person, or names them."""
    chat = str(row.target.get("chat", ""))
    kind, *rest = row.dedupe_key.split(":")
    first = rest[0] if rest else ""
    return (
        (row.account_id, chat) in traces.chats
        or (kind == "run" and first in traces.runs)
        or (kind in {"command", "passed"} and first in traces.received)
        or row.dedupe_key.startswith(f"notice:link:{traces.user.pk}:")
        or not traces.refs.isdisjoint(rest)
        or traces.words.are_in_any([row.target, row.payload, *rest])
    )


def requests(traces: Traces) -> None:
    """Remove messages that were held or ignored, requests and wrong codes of their addresses.

    The requests by which they were let in go with their rows.
    """
    for theirs in words.senders(traces.user):
        dependents.remove(InboundMessage.objects.filter(theirs, user__isnull=True))
        dependents.remove(LinkAttempt.objects.filter(theirs))
        dependents.remove(UnknownRequest.objects.filter(theirs).exclude(granted_user=traces.user))
    without = InboundMessage.objects.filter(user__isnull=True).order_by("pk")
    for row in without.iterator(chunk_size=AT_ONCE):
        raw = bytes(row.raw).decode("utf-8", "replace")
        said_by = f"{row.sender} {row.sender_name} {raw}"
        if (row.account_id, row.chat) in traces.chats or traces.words.are_in(said_by):
            dependents.remove(InboundMessage.objects.filter(pk=row.pk))
    with atomic_write():
        pending_count.changed()


def rules(traces: Traces) -> None:
    """Remove the owner's rules for their chats and keys."""
    for account, chat in traces.chats:
        dependents.remove(ToolRule.objects.filter(account_id=account, chat=chat))
        dependents.remove(AssistantBinding.objects.filter(account_id=account, chat=chat))
    keys = list(ApiKey.objects.filter(user=traces.user).values_list("pk", flat=True))
    dependents.remove(Budget.objects.filter(key_id__in=keys))
    dependents.remove(AssistantBinding.objects.filter(key_id__in=keys))


def sums(user: User) -> None:
    """Take the person out of what was used and paid; the sums stay."""
    keys = list(ApiKey.objects.filter(user=user).values_list("pk", flat=True))
    change(UsageDay.objects.filter(Q(user_id=user.pk) | Q(key_id__in=keys)), user_id=0, key_id=0)
    change(ModelCall.objects.filter(Q(user=user) | Q(key_id__in=keys)), user=None, key_id=0)
    with atomic_write():
        ModelTrouble.objects.filter(run__user=user).update(reason="")


def blank_log(traces: Traces) -> None:
    """Blank what Django's log of the admin says about the person."""
    number = str(traces.user.pk)
    for row in LogEntry.objects.select_related("content_type").iterator(chunk_size=AT_ONCE):
        is_theirs = row.object_id == number and names_model(row, User)
        if is_theirs or traces.words.are_in(f"{row.object_repr} {row.change_message}"):
            blank_log_entry(row)


def blank_log_of_the_gone() -> None:
    """Blank what the log of the admin says about conversations, files and the like that are gone:
    nothing tells any more whose they were. After the rows were removed.
    """
    for row in LogEntry.objects.select_related("content_type").iterator(chunk_size=AT_ONCE):
        for section in SECTIONS:
            if names_model(row, section.model) and row.object_repr:
                is_there = section.model._default_manager.filter(pk=row.object_id).exists()
                if not is_there:
                    blank_log_entry(row)


def names_model(row: LogEntry, model: Any) -> bool:
    kind = row.content_type
    known = (kind.app_label, kind.model) if kind is not None else None
    return known == (model._meta.app_label, model._meta.model_name)


def blank_log_entry(row: LogEntry) -> None:
    with atomic_write():
        LogEntry.objects.filter(pk=row.pk).update(object_repr="", change_message="")


def blank_entry(row: AuditEntry, traces: Traces) -> bool:
    """Blank a row of the audit that is by or about the person; return whether it was changed.

    The number of a row stays: ``user:5 Ann`` becomes ``user:5``.
    """
    before = (row.actor, row.subject, row.data)
    own, known = f"user:{traces.user.pk}", traces.words
    if row.action != audit.BLANKED:
        if points_at(row.data, own):
            row.subject = audit.number_of(row.subject) or BLANK
            row.data = blanked(row.data)
        elif re.match(rf"{own}(?!\d)", row.subject) or known.are_in(
            row.subject.removeprefix(audit.number_of(row.subject))
        ):
            row.data = blanked(row.data)
        row.data = known.blanked_in(row.data)
    row.actor = without_name(row.actor, own, known)
    row.subject = without_name(row.subject, own, known)
    return (row.actor, row.subject, row.data) != before


def without_name(text: str, own: str, known: Words) -> str:
    """Return the actor or subject of a row with the person's number, and without their words."""
    text = re.sub(rf"(?<!\w){own}(?!\d).*", own, text, flags=re.DOTALL)
    number = audit.number_of(text)
    return number + known.blanked(text.removeprefix(number))


def points_at(value: object, own: str) -> bool:
    """Return whether the data of a row name the person by number."""
    if not isinstance(value, dict):
        return False
    number = own.removeprefix("user:")
    return any(value.get(name) in {own, number, int(number)} for name in ("user", "of", "person"))


def blanked(value: Any) -> Any:
    """Return a JSON value whose texts are blanked."""
    return with_texts(value, lambda text: BLANK if text else text)


def change(rows: QuerySet[Any], **values: Any) -> None:
    """Change rows in short transactions, so that they are not found any more."""
    while ids := list(rows.order_by().values_list("pk", flat=True)[:AT_ONCE]):
        with atomic_write():
            rows.model._default_manager.filter(pk__in=ids).update(**values)
