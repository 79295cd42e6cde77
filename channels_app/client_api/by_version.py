"""Addresses that two APIs have: a header of Anthropic's clients tells which one is meant."""

from typing import Any

from channels_app.asgi.http import Receive, Scope, Send

HEADER = b"anthropic-version"


def by_version(theirs: Any, others: Any) -> Any:
    """Return an application: ``theirs`` answers requests with the header ``anthropic-version``, and
    ``others`` all else.
    """

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        is_theirs = any(name.lower() == HEADER for name, _ in scope["headers"])
        await (theirs if is_theirs else others)(scope, receive, send)

    choose.consumer_class = others.consumer_class  # type: ignore[attr-defined]  # as Channels does
    return choose
