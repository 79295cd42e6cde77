"""``POST /process`` [D4]: key, body, signature, one call, 202 after the commit."""

import hashlib
import time
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.http import HttpResponse
from django.utils import timezone

from allowlist.models import ApiKey
from channels_app.asgi import http
from channels_app.asgi.admission import admit_message
from channels_app.asgi.authentication import authenticate, count_sender
from channels_app.asgi.http import RefusedError, Request
from channels_app.asgi.principal import DeniedError, Principal
from channels_app.asgi.views import EndpointRequest, endpoint, json_response
from channels_app.bridge import fields, signing
from channels_app.bridge.channel import CHANNEL
from channels_app.delivery.sending import account_of
from channels_app.intake import slash_commands
from channels_app.intake.inbound import receive_sender
from channels_app.models import SeenSignature
from core.database.transactions import atomic_write, in_thread
from core.lib.encryption import DecryptError
from core.lib.ids import digest_of
from core.models import ChannelAccount

FORGET_AFTER = timedelta(seconds=2 * signing.WINDOW_SECONDS + 60)


@endpoint("POST")
async def process(request: EndpointRequest) -> HttpResponse:
    head = request.head
    caller = await authenticate(head, scope=ApiKey.Scope.INBOUND)
    account = bridge_of(caller)
    head.require_json()
    raw = await request.read_body()
    admit_message(caller)
    await in_thread(check_signature, head, account, raw)
    asked = fields.read(http.parse_object(raw))
    signature = head.header(signing.SIGNATURE.lower())
    request_id = await in_thread(accept, account, asked, signature=signature, key=caller.key_id)
    return json_response(202, {"ok": True, "status": 202, "request_id": request_id})


def bridge_of(caller: Principal) -> ChannelAccount:
    """Return the account of a bridge key. Raises RefusedError 403 for a personal key."""
    if caller.account is None or caller.account.channel != CHANNEL.id:
        raise RefusedError(403, "A bridge's key is needed.")
    return caller.account


def check_signature(request: Request, row: ChannelAccount, raw: bytes) -> None:
    """Raise RefusedError: 409 for an account without a callback, 401 for a bad signature."""
    try:
        account = account_of(row)
    except DecryptError as error:
        raise RefusedError(503, "The account's secrets cannot be read.") from error
    secret = account.secrets.get("signing_secret", "")
    if not secret or not account.config.get("callback_url") or CHANNEL.config.problems(account):
        raise RefusedError(409, "This account has no callback_url and signing_secret yet.")
    try:
        signing.check(
            secret=secret,
            timestamp=request.header(signing.TIMESTAMP.lower()),
            signature=request.header(signing.SIGNATURE.lower()),
            body=raw,
            now=time.time(),
        )
    except signing.BadSignatureError as error:
        raise RefusedError(401, f"{error}.") from error


def accept(account: ChannelAccount, asked: fields.Asked, *, signature: str, key: int) -> str:
    """Put a request into the inbox; return its id. The same id again is the same request.

    Raises RefusedError: 409 for a signature that was used before, 401 for an unknown sender, 429
    above the rate limit.
    """
    count_sender(account, asked.user_id)
    now = timezone.now()
    # A signature is forgotten too early where the clock jumps and comes back, a message is not.
    request_id = asked.request_id or digest_of(signature, 32)
    with atomic_write():
        note(account, signature, now)
        receipt = receive_sender(
            draft=asked.draft(account=account, request_id=request_id, key=key),
            now=now,
            command=slash_commands.parse(asked.text),
        )
    if receipt.outcome == "denied":
        raise DeniedError
    return request_id


def note(account: ChannelAccount, signature: str, now: datetime) -> None:
    """Record that a signature was used, and delete older ones. Inside a transaction.

    Raises RefusedError 409 when it was used before: a repeated request needs a new signature.
    """
    SeenSignature.objects.filter(at__lt=now - FORGET_AFTER).delete()
    digest = hashlib.sha256(f"{account.id}:{signature}".encode()).hexdigest()
    try:
        with transaction.atomic():
            SeenSignature.objects.create(digest=digest, at=now)
    except IntegrityError as error:
        raise RefusedError(409, "This request was sent before: sign it anew.") from error
