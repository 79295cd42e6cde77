"""Signatures both ways ([D4]): HMAC-SHA256 over time stamp and body. Pure.

X-Latchkey-Timestamp: 1790000000            seconds since 1970
X-Latchkey-Signature: v1=<hex of HMAC-SHA256(secret, "<timestamp>." + body)>
"""

import hashlib
import hmac

from core.lib.text import is_number

TIMESTAMP = "X-Latchkey-Timestamp"
SIGNATURE = "X-Latchkey-Signature"
WINDOW_SECONDS = 300
MIN_SECRET = 16


class BadSignatureError(Exception):
    """The headers do not prove the body's origin; the text tells the bridge's author why."""


def sign(*, secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of the signature header."""
    digest = hmac.new(secret.encode(), b"%d." % timestamp + body, hashlib.sha256)
    return f"v1={digest.hexdigest()}"


def headers(*, secret: str, now: float, body: bytes) -> dict[str, str]:
    """Return both headers for ``body``."""
    timestamp = int(now)
    return {
        TIMESTAMP: str(timestamp),
        SIGNATURE: sign(secret=secret, timestamp=timestamp, body=body),
    }


def check(*, secret: str, timestamp: str, signature: str, body: bytes, now: float) -> None:
    """Raise BadSignatureError unless the headers belong to ``body`` and are recent."""
    if not is_number(timestamp, 12):
        raise BadSignatureError(f"{TIMESTAMP} must be seconds since 1970")
    expected = sign(secret=secret, timestamp=int(timestamp), body=body)
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise BadSignatureError(f"{SIGNATURE} does not belong to this body")
    if abs(now - int(timestamp)) > WINDOW_SECONDS:
        raise BadSignatureError(f"{TIMESTAMP} is more than {WINDOW_SECONDS} s away")
