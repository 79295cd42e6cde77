"""A person with something in every table, and where words are stored."""

import json
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import connection, models
from django.utils import timezone

from allowlist import audit
from allowlist.models import ApiKey, LinkAttempt, UnknownRequest
from channels_app.models import SourceFeedback
from core.files import storage
from core.models import (
    Assistant,
    AssistantBinding,
    Budget,
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Job,
    JobStep,
    McpConnection,
    McpServer,
    Message,
    ModelCall,
    Occurrence,
    PushMessage,
    PushSubscription,
    RetentionRule,
    Run,
    RunEvent,
    RunFailure,
    RunPause,
    Schedule,
    StoredFile,
    ToolCall,
    ToolGrant,
    ToolRule,
    UsageDay,
    User,
)


def reachable() -> set[type[models.Model]]:
    """Return all models with a way to a person: by foreign keys, or by a column's name."""
    found: set[type[models.Model]] = {User}
    every = apps.get_models(include_auto_created=True)
    while True:
        more = {
            model
            for model in every
            if any(
                (field.many_to_one or field.one_to_one) and field.related_model in found
                for field in model._meta.get_fields()
                if field.concrete
            )
        }
        if more <= found:
            break
        found |= more
    named = {"user_id", "person", "person_id", "username", "sender", "actor"}
    found |= {
        model for model in every if named & {field.name for field in model._meta.concrete_fields}
    }
    # Django keeps the person of a session inside of it.
    return found | {apps.get_model("sessions", "Session")}


def paths_to_user() -> Iterator[tuple[type[models.Model], str]]:
    """Yield each model with each of its ways to a person, of foreign keys that are followed."""
    for model in sorted(reachable(), key=lambda each: each._meta.label):
        yield from ((model, path) for path in ways(model, ()))


def ways(model: type[models.Model], seen: tuple[type[models.Model], ...]) -> Iterator[str]:
    for field in model._meta.get_fields():
        if not (field.concrete and (field.many_to_one or field.one_to_one)):
            continue
        target: Any = field.related_model
        if target is User:
            yield field.name
        elif target not in seen and target is not model:
            yield from (f"{field.name}__{way}" for way in ways(target, (*seen, model)))


def build(name: str, word: str, account: ChannelAccount, shared: ChannelAccount) -> User:
    """Return a person with rows in every table with a way to people; each text has ``word``."""
    now = timezone.now()
    texts = iter(f"{word}n{number}" for number in range(10_000))

    def text() -> str:
        return next(texts)

    user = User.objects.create(
        username=f"{word}-{name}",
        first_name=text(),
        last_name=text(),
        display_name=text(),
        email=f"{text()}@example.org",
        last_target={"chat": text()},
    )
    address = f"{word}-address"
    ChannelIdentity.objects.create(user=user, kind="im", account=account, value=address)
    server = McpServer.objects.get_or_create(name="S", slug="s", url="https://s.example")[0]
    server.people.add(user)
    assistant = Assistant.objects.get_or_create(slug="chosen", defaults={"name": "Chosen"})[0]
    assistant.people.add(user)
    AssistantBinding.objects.create(assistant=assistant, user=user)
    rows_of_talk(user, account, shared, text)
    rows_beside(user, account, text)
    own = f"user:{user.pk}"
    audit.record(
        actor=audit.actor_of(user), action="sign_in", subject=audit.actor_of(user), now=now
    )
    data: dict[str, object] = {"user": user.pk, "sender": f"im:{address}", "before": text()}
    audit.record(actor="user:1 Owner", action="request.approve", subject="x", data=data, now=now)
    old = f"channelidentity:9 im:{text()}"
    data = {"user": user.pk, "before": text()}
    audit.record(
        actor="user:1 Owner", action="channelidentity.deleted", subject=old, data=data, now=now
    )
    changed: dict[str, object] = {"display_name": [text(), user.display_name]}
    audit.record(
        actor="user:1 Owner",
        action="user.changed",
        subject=f"{own} {text()}",
        data=changed,
        now=now,
    )
    data = {"person": user.username}
    audit.record(actor="boss", action="tool.allowed", subject="send_mail", data=data, now=now)
    LogEntry.objects.create(
        user=User.objects.get(username="boss"),
        content_type=ContentType.objects.get_for_model(User),
        object_id=str(user.pk),
        object_repr=text(),
        action_flag=CHANGE,
        change_message=json.dumps([{"changed": {"name": "identity", "object": text()}}]),
    )
    return user


def rows_of_talk(user: User, account: ChannelAccount, shared: ChannelAccount, text: Any) -> None:
    """Create a conversation with all that hangs on it, and one in a chat that others use too."""
    now = timezone.now()
    address = user.identities.get().value
    session = ChatSession.objects.create(user=user, account=account, chat=address, title=text())
    ChatSession.objects.create(user=user, account=shared, chat="group", title=text())
    run = Run.objects.create(
        session=session, user=user, origin="memory", text=text(), result={"text": text()},
        error=text(), options={"x": text()}, route={"chat": address}, state="succeeded", last_seq=1,
    )  # fmt: skip
    RunFailure.objects.create(run=run, code="x", reason=text())
    RunEvent.objects.create(
        run=run, seq=1, data=json.dumps({"type": "text", "props": {"content": text()}})
    )
    RunPause.objects.create(run=run, messages=[{"content": text()}])
    call = ToolCall.objects.create(
        run=run, call_id="1", tool="send_mail", arguments=json.dumps({"to": text()}),
        digest="0" * 64, state="done", result={"text": text()}, asked_of=user,
    )  # fmt: skip
    Message.objects.create(
        session=session, run=run, role="user", text=text(), data={"said": text()}
    )
    InboundMessage.objects.create(
        account=account, session=session, run=run, user=user, sender=address, sender_name=text(),
        chat=address, text=text(), raw=text().encode(), received_at=now, state="answered",
    )  # fmt: skip
    InboundMessage.objects.create(
        account=account, sender=address, sender_name=text(), chat=address, text=text(),
        received_at=now, state="held",
    )  # fmt: skip
    InboundMessage.objects.create(
        account=account,
        raw=f'{{"from": "{address}"}}'.encode(),
        received_at=now,
        state="quarantined",
    )
    said = {"text": text()}
    of_run = {"session": session, "run": run}
    deliveries: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        (f"run:{run.pk}:0", said, of_run),
        (f"run:{run.pk}:elsewhere:0", said, {}),
        (f"notice:tool:{call.public_id}:1", said, {}),
        (f"x:{address}", {"text": f"{user} has spent 80 %"}, {}),
    )
    for number, (key, payload, more) in enumerate(deliveries):
        Delivery.objects.create(
            account=account, conversation=f"{account.pk}:{number}:", target={"chat": "1"},
            dedupe_key=key, payload=payload, state="sent", **more,
        )  # fmt: skip
    job = Job.objects.create(
        run=run, tool_call_id="1", tool="x", parameters={"a": text()}, message=text()
    )
    JobStep.objects.create(job=job, kind="answer", key=text(), data=text())
    left = storage.folder() / "jobs" / str(job.pk)
    left.mkdir(parents=True, exist_ok=True)
    (left / text()).write_text(text())
    storage.keep(
        user=user,
        name=f"{text()}.txt",
        content=text().encode(),
        session_id=session.pk,
        run_id=run.pk,
    )
    SourceFeedback.objects.create(
        run=run, user=user, message_id="m", source_id=text(), verdict="up", title=text(), url=text()
    )
    schedule = Schedule.objects.create(
        user=user, kind="text", text=text(), start="2030-01-01T08:00", time_zone="UTC",
        session=session, account=account, chat=address, sender=address,
    )  # fmt: skip
    Occurrence.objects.create(schedule=schedule, nominal_at=now, run=run, note=text())
    ModelCall.objects.create(
        run=run, user=user, model_name="m", prompt_tokens=7, cost=5, day=now.date(), key_id=0
    )
    ToolGrant.objects.create(tool="send_mail", user=user, session=session)


def rows_beside(user: User, account: ChannelAccount, text: Any) -> None:
    """Create what belongs to a person outside of conversations."""
    now = timezone.now()
    address = user.identities.get().value
    key = ApiKey.objects.create(name=text(), prefix=text()[-16:], digest="0" * 64, user=user)
    UsageDay.objects.create(day=now.date(), user_id=user.pk, key_id=key.pk, calls=2, cost=11)
    Budget.objects.create(limit=1, key_id=key.pk)
    Budget.objects.create(limit=1, user=user)
    ToolRule.objects.create(tool="x", ask="always", user=user)
    RetentionRule.objects.create(kind="messages", days=30, user=user)
    ToolRule.objects.create(tool="x", ask="always", account=account, chat=address)
    browser = PushSubscription.objects.create(
        user=user, session_key=text()[:40], endpoint=f"https://push.example/{text()}", p256dh="x",
        auth="x", browser=text(),
    )  # fmt: skip
    PushMessage.objects.create(subscription=browser, kind="answer", ref=text(), expires_at=now)
    McpConnection.objects.create(
        server=McpServer.objects.get(), user=user, scope=text(), connected_at=now
    )
    LinkAttempt.objects.create(account=account, kind="im", sender=address, at=now)
    UnknownRequest.objects.create(
        account=account, kind="im", sender=address, sender_name=text(), chat=address,
        state="approved", last_text=text(), first_seen_at=now, last_seen_at=now, expires_at=now,
        granted_user=user,
    )  # fmt: skip


def texts_of_the_database() -> Iterator[tuple[str, str]]:
    """Yield place and text of every value of every table, and of PostgreSQL's statistics."""
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        names += ["pg_stats"] if connection.vendor == "postgresql" else []
        for table in names:
            cursor.execute(f'SELECT * FROM "{table}"')
            columns = [each[0] for each in cursor.description]
            for row in cursor.fetchall():
                for column, value in zip(columns, row, strict=True):
                    data = bytes(value) if isinstance(value, (bytes, memoryview)) else value
                    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
                    yield f"{table}.{column}", text


def places_of(word: str) -> list[str]:
    """Return where ``word`` is stored in the database."""
    return sorted(
        {place for place, text in texts_of_the_database() if word.lower() in text.lower()}
    )


def rows_of(user: User) -> dict[str, Any]:
    """Return every row of a person, from every way to them."""
    found: dict[str, Any] = {}
    for model, path in paths_to_user():
        rows = model._default_manager.filter(**{path: user.pk}).order_by("pk")
        found[f"{model._meta.label} {path}"] = list(rows.values())
    found["User"] = list(User.objects.filter(pk=user.pk).values())
    for file in StoredFile.objects.filter(user=user):
        found[f"bytes of {file.pk}"] = storage.read(file)
    return found
