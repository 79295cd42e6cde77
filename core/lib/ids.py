"""Public identifiers: random, unguessable, safe in a URL."""

import re
import secrets
from functools import partial
from hashlib import sha256

PUBLIC_ID = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)


# 128 random bits in 22 URL-safe characters. A partial: migrations name the standard library only.
public_id = partial(secrets.token_urlsafe, 16)


def is_public_id(value: object) -> bool:
    """Return whether ``value`` has the form of ``public_id()``; checked before any look-up."""
    return isinstance(value, str) and PUBLIC_ID.fullmatch(value) is not None


def digest_of(name: str, length: int) -> str:
    """Return ``length`` (at most 64) hexadecimal digits of a name's hash."""
    return sha256(name.encode(errors="replace")).hexdigest()[:length]
