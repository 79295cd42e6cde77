"""The one script of a generated slide show, allowed by its hash, and by no other page.

Light: the web process imports it, and creates no slides.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

SCRIPT = Path(__file__).parent / "html_slides" / "slides.js"
MOST_BYTES = 8 * 1024 * 1024
HEAD_BYTES = 2048  # the policy stands before every word of the deck


@cache
def script() -> str:
    return SCRIPT.read_text(encoding="utf-8")


@cache
def script_source() -> str:
    """Return its Content-Security-Policy source: ``'sha256-…'``."""
    return f"'sha256-{b64encode(sha256(script().encode()).digest()).decode()}'"


@cache
def policy() -> str:
    """Return the policy in a slide show's own head, for servers that send none."""
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {script_source()}; "
        "base-uri 'none'; form-action 'none'"
    )


def is_slide_show(content: bytes) -> bool:
    """Return whether ``content`` is a deck of this version: our policy in its head, and no other
    tag that acts as a header, with which a page that may run scripts could redirect.
    """
    own = f'<meta http-equiv="Content-Security-Policy" content="{policy()}">'.encode()
    return own in content[:HEAD_BYTES] and content.lower().count(b"http-equiv") == 1
