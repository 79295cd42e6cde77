"""Reasoning that a client keeps, encrypted for its person (decision 218)."""

from collections.abc import Iterator
from typing import Any

from channels_app.asgi.chat_messages import Json
from channels_app.asgi.http import RefusedError
from core.lib import encryption
from core.lib.text import in_ascii

INCLUDE = "reasoning.encrypted_content"
# Content of other servers begins otherwise.
PREFIX = "lk1_"
MOST_CHARACTERS = 16_384
# Of JSON at most six bytes for a character, and a third more as base64, with the frame of a token.
LONGEST = MOST_CHARACTERS * 8 + 1000


class NotVerifiedError(RefusedError):
    """Encrypted reasoning that is broken, or another person's: OpenAI's error for it."""

    code = "invalid_encrypted_content"

    def __init__(self, sealed: str, where: str) -> None:
        """Take the content, of which the error shows both ends, and its place in the request."""
        shown = in_ascii(f"{sealed[:4]}...{sealed[-4:]}")
        super().__init__(400, f"The encrypted content {shown} could not be verified.", field=where)


def encrypt(text: str, *, person: int) -> str:
    """Return the beginning of a thought for a client to keep. ``person``: the id of its user."""
    kept = {"person": str(person), "reasoning": text[:MOST_CHARACTERS]}
    return PREFIX + encryption.encrypt(kept)


def decrypt(sealed: str, where: str, *, person: int) -> str:
    """Return the thought. Raises NotVerifiedError, also for another person's."""
    try:
        if len(sealed) > LONGEST or not sealed.isascii():
            raise encryption.DecryptError
        kept = encryption.decrypt_once(sealed.removeprefix(PREFIX))
    except encryption.DecryptError as error:
        raise NotVerifiedError(sealed, where) from error
    if kept.get("person") != str(person) or "reasoning" not in kept:
        raise NotVerifiedError(sealed, where)
    return kept["reasoning"]


def kept_in(given: Any) -> Iterator[tuple[str, str]]:
    """Yield the encrypted content of each reasoning item of ours in an ``input``, and its place."""
    for number, item in enumerate(given if isinstance(given, list) else []):
        found: Json = item if isinstance(item, dict) else {}
        sealed = found.get("encrypted_content")
        if found.get("type") != "reasoning" or not isinstance(sealed, str):
            continue
        if sealed.startswith(PREFIX):
            yield sealed, f"input[{number}].encrypted_content"
