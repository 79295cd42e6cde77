"""Accept what a client asks: the request in one form for all protocols becomes a run.

fields of a protocol -> Ask -> prepare -> accept -> Work (the run that the request waits for)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone

from channels_app.asgi import chat_messages
from channels_app.asgi.authentication import count_sender
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.chat_messages import Json
from channels_app.asgi.fields import conversation_id
from channels_app.asgi.principal import DeniedError, Principal
from channels_app.client_api import models, sessions
from channels_app.intake.inbound import Receipt, may_speak, receive_personal, receive_sender
from channels_app.rendering.links import Links
from core.conversations.inbox import Draft, RepeatKey, body_digest
from core.database.batching import in_shared_transaction
from core.database.transactions import atomic_write, in_thread
from core.models import ChannelAccount, Run, RunOptions

ORIGIN = sessions.ORIGIN
# Fields that say how an answer is delivered: a repeated request may change them.
DELIVERY_FIELDS = {"stream", "stream_options"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A client's request. ``messages`` and ``tools`` have the form of OpenAI's chat completions.

    ``sends_history``: the messages are the whole conversation, as the client keeps it; else they
    follow what the session holds. ``options`` go to the model's server. ``user``: the sender that a
    bridge names. ``more``: the part that the protocol keeps with the run.
    """

    model: str
    messages: list[Json]
    sends_history: bool = True
    stream: bool = False
    tools: list[Json] = field(default_factory=list)
    options: Json = field(default_factory=dict)
    user: str = ""
    more: RunOptions = field(default_factory=RunOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A run that a request waits for. ``keep``: it continues when the client leaves. ``session``:
    the public id of its session; ``account``: the account that it came by; both where the protocol
    needs them.
    """

    run: Run
    language: str
    session: str = ""
    account: ChannelAccount | None = None
    keep: bool = True

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers with the ids of the run and session."""
        return {sessions.HEADER: self.session, "X-Request-Id": self.run.public_id}


@dataclass(frozen=True, slots=True)
class Said:
    """The parts of a request that go into the inbox."""

    text: str
    media: list[Json]
    options: RunOptions

    @classmethod
    def of(cls, ask: Ask) -> "Said":
        """Take a request apart; the documents in its messages become media."""
        text = chat_messages.last_said(ask.messages)
        media = chat_messages.take_files(ask.messages, keeps_places=ask.sends_history)
        options: RunOptions = {"tools": ask.tools, "model_options": ask.options, **ask.more}
        if ask.sends_history:
            options["messages"] = ask.messages
        else:
            pictures = chat_messages.pictures_in(ask.messages[-1])
            media = [{"kind": "image", "url": each["url"]} for _, each in pictures] + media
        return cls(text, media, options)


async def prepare(caller: Principal, ask: Ask) -> None:
    """Count a bridge's sender, then fetch the pictures that messages name by their address. Raises
    RefusedError.

    Not for a denied sender: the held message has no such picture.
    """
    account = caller.account
    if account is not None:
        await in_thread(count_sender, account, ask.user)
        elsewhere = chat_messages.has_pictures_elsewhere(ask.messages)
        if elsewhere and not await in_thread(may_speak, account, ask.user):
            chat_messages.drop_pictures_elsewhere(ask.messages)
    await chat_messages.fetch_pictures(ask.messages)


def repeat_key(
    caller: Principal, body: Mapping[str, Any], session: str, key: str
) -> RepeatKey | None:
    """Return the idempotency key of a request; None when the client gave none.

    The form of the answer (``stream``) may change. Computed before pictures are fetched.
    """
    if not key:
        return None
    asked = {name: value for name, value in body.items() if name not in DELIVERY_FIELDS}
    scope = f"key:{caller.key_id}" if caller.user is not None else "v1"
    return RepeatKey(scope, key, "Idempotency-Key", body_digest(asked, session))


async def accepted(
    caller: Principal,
    ask: Ask,
    *,
    session: str,
    repeat: RepeatKey | None,
    language: str,
    keep: bool = False,
) -> Work:
    """Accept a request; return the run to wait for. ``keep``: it goes on when the client leaves, as
    with an idempotency key. Raises RefusedError (nothing is stored), DeniedError (the message of an
    unknown sender is kept).
    """
    work = await in_shared_transaction(partial(work_of, caller, ask, session, repeat, language))
    if work is None:
        raise DeniedError
    return replace(work, keep=True) if keep else work


def work_of(
    caller: Principal, ask: Ask, session: str, repeat: RepeatKey | None, language: str
) -> Work | None:
    """Accept a request; return the run to wait for, None when its sender is unknown.

    RefusedError rolls everything back; the message of an unknown sender is kept.
    """
    receipt = accept(caller, ask, session, repeat)
    if receipt.run is None or receipt.session is None:
        return None
    return Work(
        run=receipt.run,
        session=receipt.session.public_id,
        account=receipt.session.account,
        language=receipt.session.user.language or language,
        keep=repeat is not None,
    )


def accept(caller: Principal, ask: Ask, session: str, repeat: RepeatKey | None) -> Receipt:
    """Put the message into the inbox. ``session``: the public id of one of the person's own, or a
    name of the client's choice. A key for the model only is one here, at ``/v1``, alone. Raises
    RefusedError.
    """
    said = Said.of(ask)
    if caller.model_only and ask.sends_history:
        said.options["model_only"] = True
    if caller.user is None:
        return accept_sender(caller, ask, session, repeat, said)
    with atomic_write(joins=True):
        account = builtin_account(ORIGIN)
        chat = sessions.chat_of(caller.key_id)
        mine = sessions.own(user=caller.user, name=session)
        thread, known = sessions.named_thread(session), None
        if not thread:
            thread, known = sessions.free_session(account=account, chat=chat, user=caller.user)
        here = Draft(account=account, chat=chat, thread=thread, repeat=repeat)
        draft = with_request(here, caller, ask, said)
        return receive_personal(
            user=caller.user,
            draft=draft,
            session_id=mine,
            now=timezone.now(),
            origin=ORIGIN,
            session=known,
        )


def accept_sender(
    caller: Principal, ask: Ask, session: str, repeat: RepeatKey | None, said: Said
) -> Receipt:
    """Accept a message of a bridge, which names its sender in ``user`` ([A5], [A10])."""
    assert caller.account is not None  # noqa: S101 - a constraint of ApiKey
    draft = Draft(
        account=caller.account,
        kind=caller.account.sender_kind,
        sender=ask.user,
        chat=conversation_id(ask.user),
        thread=sessions.named_thread(session),
        repeat=repeat,
    )
    return receive_sender(draft=with_request(draft, caller, ask, said), now=timezone.now())


def with_request(draft: Draft, caller: Principal, ask: Ask, said: Said) -> Draft:
    """Return a message, of which the place is known, with the content of its request."""
    return replace(
        draft,
        text=said.text,
        media=said.media,
        options=said.options,
        via_key=caller.key_id,
        wanted=models.wanted(ask.model),
    )


def wants_json(run: Run) -> bool:
    form = (run.options.get("model_options") or {}).get("response_format") or {}
    return form.get("type") in ("json_object", "json_schema")


def facts_of(work: Work) -> dict[str, Any]:
    """Return the fields that the config of every protocol has of a run."""
    run = work.run
    return {
        "run_id": run.public_id,
        "created": int(run.created_at.timestamp()),
        "links": Links(base_url=settings.GATEWAY_URL, run_id=run.public_id),
        "locale": work.language,
        "client_tools": tool_names(run),
        "wants_json": wants_json(run),
    }


def tool_names(run: Run) -> frozenset[str]:
    """Return the names of the tools that the client offered with a run."""
    return frozenset(tool["function"]["name"] for tool in run.options.get("tools") or [])
