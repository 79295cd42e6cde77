"""The operations of a socket, each one call in a database thread."""

from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext_lazy

from allowlist import unknown_requests
from allowlist.models import ApiKey, UnknownRequest
from allowlist.unknown_requests import Verdict
from channels_app.asgi import throttling
from channels_app.asgi.admission import BusyError, admit_message
from channels_app.asgi.authentication import count_sender
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.fields import conversation_id
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import DeniedError, Principal
from channels_app.intake import decisions, inbound, slash_commands
from channels_app.owner import notices
from channels_app.webchat import choices, frames, tool_decisions
from channels_app.webchat.choices import Picked
from core.conversations import assistants, inbox, runs
from core.conversations.inbox import Draft, RepeatKey, body_digest
from core.database.transactions import atomic_write
from core.lib.ids import is_public_id
from core.models import ChannelAccount, ChatSession, Run, ToolCall, User

SHOWN_NOTICES = 3
NO_CHAT = gettext_lazy("This chat does not exist.")
NO_RUN = gettext_lazy("This run does not exist.")
NO_REQUEST = gettext_lazy("This request does not exist.")


def accept(frame: frames.Say, *, principal: Principal) -> tuple[Run, str]:
    """Store a message in the inbox; return its run and the public id of its session.

    A repeated ``client_id`` returns the same run. Raises RefusedError.
    """
    count(frame, principal)
    if principal.user is not None:
        receipt = accept_personal(frame, principal.user, principal.key_id)
    else:
        receipt = accept_bridged(frame, principal)
    if receipt.outcome == "unknown_session":
        raise RefusedError(404, NO_CHAT, field="session_id")
    if receipt.run is None or receipt.session is None:
        raise DeniedError(receipt.said)
    return receipt.run, receipt.session.public_id


def admit(frame: frames.Say, principal: Principal, *, ahead: int = 0, waited: float = 0.0) -> None:
    """Refuse a message while the gateway is busy; commands always pass. On the event loop.

    ``ahead``: frames of this socket before it, of which the first has ``waited`` so many seconds.
    Raises BusyError.
    """
    if command_in(frame) is not None:
        return
    if ahead and waited > settings.MAX_QUEUE_SECONDS:
        raise BusyError(place=ahead + 1, seconds=waited)
    admit_message(principal)


def count(frame: frames.Say, principal: Principal) -> None:
    """Count one message for the sender and for the key. Raises RefusedError."""
    if principal.key_id:
        throttling.keys.check(subject=str(principal.key_id), limit=settings.RATE_PER_MINUTE_KEY)
    if principal.account is not None:
        count_sender(principal.account, frame.user_id)
    else:  # already counted in this process
        throttling.people.everywhere(subject=principal.subject, limit=settings.RATE_PER_MINUTE_USER)


def accept_personal(frame: frames.Say, user: User, key_id: int) -> inbound.Receipt:
    """Store a user's message, with their present rights. Raises RefusedError 401 if deactivated."""
    found = User.objects.filter(id=user.id, is_active=True).first()
    if found is None:
        raise DeniedError
    user = found
    command = command_in(frame)
    draft = Draft(
        account=builtin_account("web"),
        repeat=repeat_key(frame, scope=f"web:{user.id}", session=frame.session_id),
        text=frame.text,
        media=frame.media,
        via_key=key_id,
    )
    receive = partial(
        inbound.receive_personal,
        user=user,
        draft=draft,
        session_id=frame.session_id,
        now=timezone.now(),
        origin="web",
        command=command,
        may_decide=command is not None and may_decide(key_id),
    )
    wanted = Picked(frame.assistant_id, frame.model_id)
    if not wanted:
        return receive()
    with atomic_write():
        return receive(session=begin_chat(user, draft, wanted))


def begin_chat(user: User, draft: Draft, wanted: Picked) -> ChatSession | None:
    """Return a new chat with the person's choice; None for a message that was stored before.

    Raises RefusedError 404 for what the person may not choose. Inside a transaction.
    """
    if inbox.find_duplicate(draft) is not None:
        return None
    refused = choices.field_refused(choices.requester_in_new_chat(user), wanted)
    if refused:
        raise RefusedError(404, choices.MISSING[refused], field=refused)
    session = inbox.open_session(user=user, account=draft.account)
    assistants.pick(session, assistant_id=wanted.assistant_id, model_id=wanted.model_id)
    return session


def may_decide(key_id: int) -> bool:
    """Return whether a credential decides unknown requests: a session, or a key's scope ([A10])."""
    if not key_id:
        return True
    scopes = ApiKey.objects.filter(pk=key_id).values_list("scopes", flat=True).first()
    return ApiKey.Scope.ADMIN_REQUESTS in (scopes or [])


def accept_bridged(frame: frames.Say, principal: Principal) -> inbound.Receipt:
    """Store a message of a bridge's sender, subject to the allowlist, with the account as it is
    now. Raises RefusedError, 401 when it has been disabled.
    """
    assert principal.account is not None  # noqa: S101 - a constraint of ApiKey
    principal.require_sender(frame.user_id)
    account = ChannelAccount.objects.filter(id=principal.account.id, enabled=True).first()
    if account is None:
        raise DeniedError
    draft = Draft(
        account=account,
        kind=account.sender_kind,
        sender=frame.user_id,
        chat=conversation_id(frame.user_id),
        repeat=repeat_key(frame, scope="ws"),
        text=frame.text,
        media=frame.media,
        via_key=principal.key_id,
    )
    return inbound.receive_sender(draft=draft, now=timezone.now(), command=command_in(frame))


def command_in(frame: frames.Say) -> slash_commands.Command | None:
    """Return the slash command in a frame, if any ([C8])."""
    return None if frame.media else slash_commands.answered_at_once(frame.text)


def repeat_key(frame: frames.Say, *, scope: str, session: str = "") -> RepeatKey | None:
    """Return the deduplication key of a frame; None without a ``client_id``. ``session``: the one
    named by a user (a bridge names none); the page sends it only when it sends a message again.
    """
    if not frame.client_id:
        return None
    digest = body_digest(frame.text, frame.media)
    return RepeatKey(scope, frame.client_id, "client_id", digest, session=session)


def own_run(*, user_id: int, run_id: str) -> Run:
    """Return a user's own run. Raises RefusedError 404, also for another user's."""
    found = None
    if is_public_id(run_id):
        own = Run.objects.select_related("session")
        found = own.filter(public_id=run_id, user_id=user_id).first()
    if found is None:
        raise RefusedError(404, NO_RUN, field="run_id")
    return found


def session_of(*, user_id: int, run_id: str) -> str:
    """Return the public id of the session of a user's own run. Raises RefusedError 404."""
    return own_run(user_id=user_id, run_id=run_id).session.public_id


def stop(*, user_id: int, run_id: str) -> None:
    """Cancel a run ([C9]). Raises RefusedError 404."""
    runs.request_cancel(run=own_run(user_id=user_id, run_id=run_id))


def result(run_id: int) -> dict[str, Any]:
    """Return the fields of the final answer of a run."""
    found: dict[str, Any] = Run.objects.values_list("result", flat=True).get(id=run_id)
    return found


def is_chat(*, user_id: int, session_id: str) -> bool:
    """Return whether a session is a user's own web chat."""
    rows = ChatSession.objects.filter(closed_at__isnull=True, account__channel="web")
    return rows.filter(public_id=session_id, user_id=user_id).exists()


def decide(frame: frames.Decide | frames.DecideCall, *, principal: Principal) -> dict[str, Any]:
    """Carry out a decision; return the notice's new state. Raises RefusedError 404."""
    if isinstance(frame, frames.DecideCall):
        return tool_decisions.decide(frame, principal=principal)
    owner = principal.user
    if owner is None or not principal.session_key:
        raise RefusedError(404, NO_REQUEST, field="request")
    owner.refresh_from_db(fields=["is_owner", "is_active"])
    try:
        verdict = decisions.decide(
            request=frame.request,
            verdict=frame.verdict,
            owner=owner,
            via="web chat",
            now=timezone.now(),
        )
    except (unknown_requests.RequestNotFound, unknown_requests.NotAnOwner) as error:
        raise RefusedError(404, NO_REQUEST, field="request") from error
    except ValueError as error:
        raise RefusedError(422, str(error), field="request") from error
    text = notices.settled(verdict.request, verdict.text)
    return settled(frame.request, text)


def pending_notices(principal: Principal) -> list[dict[str, Any]]:
    """Return the cards of what waits for a decision of this user."""
    return [*tool_decisions.waiting_cards(principal), *pending_requests(principal)]


def is_owner(principal: Principal) -> bool:
    """Return whether an owner uses this browser: as it is now, a socket lives longer."""
    if principal.user is None or not principal.session_key:
        return False
    return User.objects.filter(pk=principal.user.pk, is_owner=True, is_active=True).exists()


def pending_requests(principal: Principal) -> list[dict[str, Any]]:
    """Return the latest pending unknown requests for an owner; none for other users."""
    if not is_owner(principal):
        return []
    rows = UnknownRequest.objects.select_related("account").filter(
        state=UnknownRequest.State.PENDING, expires_at__gt=timezone.now()
    )
    return [notice(row) for row in rows.order_by("-last_seen_at")[:SHOWN_NOTICES]][::-1]


def settled_notices(principal: Principal, names: list[str]) -> list[dict[str, Any]]:
    """Return what became of these requests and calls, without buttons; nothing of those that wait
    for this user still.
    """
    calls = tool_decisions.asked_calls(principal, names)
    rows = UnknownRequest.objects.select_related("account", "decided_by", "granted_user")
    rows = rows.filter(public_id__in=names) if is_owner(principal) else rows.none()
    requests = {row.public_id: row for row in rows}
    return [
        tool_decisions.ended(calls[name]) if name in calls else over(name, requests.get(name))
        for name in names
        if not is_waiting(calls.get(name) or requests.get(name))
    ]


def is_waiting(row: ToolCall | UnknownRequest | None) -> bool:
    return row is not None and row.state in {ToolCall.State.WAITING, UnknownRequest.State.PENDING}


def over(name: str, row: UnknownRequest | None) -> dict[str, Any]:
    """Return the card of a request that is decided, or that does not exist (any more)."""
    if row is None:
        return settled(name, str(NO_REQUEST))
    verdict = Verdict(row, first=False, until=unknown_requests.end_of(row))
    return settled(name, notices.settled(row, verdict.standing))


def settled(request: str, text: str) -> dict[str, Any]:
    """Return the card of an unknown request without buttons."""
    return {"type": "notice", "request": request, "text": text, "decided": True}


def note_shown(principal: Principal, public_ids: list[str]) -> None:
    """Record that these requests were displayed to an owner."""
    if is_owner(principal):
        notices.shown(public_ids, now=timezone.now())


def notice(row: UnknownRequest) -> dict[str, Any]:
    """Return the card of an unknown request ([A5]); the sender's text is a separate field."""
    card = {"request": row.public_id, "text": notices.headline(row), "quote": notices.quote(row)}
    return {"type": "notice", **card}
