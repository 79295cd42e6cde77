"""Secrets at rest: Fernet, with rotation. The first key encrypts, all of them decrypt."""

import base64
import hashlib
from collections.abc import Callable
from functools import lru_cache

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

KEPT = 100


class DecryptError(Exception):
    """The stored secrets cannot be opened with any of the configured keys."""


def keys() -> list[Fernet]:
    """Return the keys of GATEWAY_ENCRYPTION_KEYS, each hashed to a Fernet key by SHA-256."""
    return [
        Fernet(base64.urlsafe_b64encode(hashlib.sha256(key.encode()).digest()))
        for key in settings.GATEWAY_ENCRYPTION_KEYS
    ]


def box() -> MultiFernet:
    return MultiFernet(keys())


def encrypt(secrets: dict[str, str]) -> str:
    """Return ``secrets`` encrypted, as text for a database column; empty for empty."""
    return box().encrypt(orjson.dumps(secrets)).decode() if secrets else ""


def decrypt(sealed: str) -> dict[str, str]:
    """Return the secrets. Raises DecryptError when no key fits."""
    if not sealed:
        return {}
    opened: dict[str, str] = orjson.loads(
        decrypted(sealed, tuple(settings.GATEWAY_ENCRYPTION_KEYS))
    )
    return opened


def decrypt_once(sealed: str) -> dict[str, str]:
    """Return secrets without caching: clients' come by the thousand. Raises DecryptError."""
    opened: dict[str, str] = orjson.loads(with_a_key(box().decrypt, sealed))
    return opened


@lru_cache(KEPT)
def decrypted(sealed: str, _keys: tuple[str, ...]) -> bytes:
    """Decrypt ``sealed``, cached: several times per message. Raises DecryptError."""
    return with_a_key(box().decrypt, sealed)


def reencrypt(sealed: str) -> str:
    """Return the same secrets under the first key. Raises DecryptError when no key fits."""
    return with_a_key(box().rotate, sealed).decode() if sealed else ""


def with_a_key(read: Callable[[bytes], bytes], sealed: str) -> bytes:
    """Return what ``read`` makes of ``sealed``. Raises DecryptError when no key fits."""
    try:
        return read(sealed.encode())
    except InvalidToken as error:
        raise DecryptError("the stored secrets cannot be opened: was the key changed?") from error


def is_current(sealed: str) -> bool:
    """Return whether the first key alone decrypts them; true for empty."""
    if not sealed:
        return True
    try:
        keys()[0].decrypt(sealed.encode())
    except InvalidToken:
        return False
    return True
