"""The number of pending requests; open admin pages are notified of changes."""

from functools import partial

from django.db import transaction
from django.http import HttpRequest

from allowlist.models import UnknownRequest
from core.lib.read_once import read_once
from core.signals import pubsub

# The pubsub key of every open page of the admin.
OPEN_ADMIN_PAGES = "desk"


def count() -> int:
    return UnknownRequest.objects.filter(state=UnknownRequest.State.PENDING).count()


def count_on_page(request: HttpRequest) -> int:
    """Return :func:`count`, for a page of the admin, which shows it several times."""
    return read_once(request, "pending_requests", count)


def changed() -> None:
    """Make open pages count again, after the commit. A lost hint costs a few seconds."""
    frame: pubsub.Frame = {"keys": [OPEN_ADMIN_PAGES], "kind": "waiting"}
    transaction.on_commit(partial(pubsub.publish, [frame]))


def request_added(request: UnknownRequest) -> None:
    """Make open pages show the sender of ``request``, after the commit."""
    frame: pubsub.Frame = {
        "keys": [OPEN_ADMIN_PAGES],
        "kind": "knock",
        "request": request.public_id,
    }
    transaction.on_commit(partial(pubsub.publish, [frame]))
