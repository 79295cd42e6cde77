"""The one script that a page of ours holds, the slide show's: named by its hash, run by no other
page. Light: the web process asks, and makes no slides."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

SCRIPT = Path(__file__).parent / "html_slides" / "slides.js"
MOST_BYTES = 8 * 1024 * 1024
HEAD_BYTES = 2048  # the policy stands before every word of the deck


@cache
def script() -> str:
    """The script."""
    return SCRIPT.read_text(encoding="utf-8")


@cache
def script_source() -> str:
    """How a Content-Security-Policy names it: ``'sha256-…'``."""
    return f"'sha256-{b64encode(sha256(script().encode()).digest()).decode()}'"


@cache
def policy() -> str:
    """The policy that a slide show has in its own head, for where no server sends one."""
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {script_source()}; "
        "base-uri 'none'; form-action 'none'"
    )


def is_slide_show(content: bytes) -> bool:
    """Whether ``content`` is a deck of this version: our policy in its head, and no other tag that
    acts as a header, with which a page that may run scripts could lead away."""
    own = f'<meta http-equiv="Content-Security-Policy" content="{policy()}">'.encode()
    return own in content[:HEAD_BYTES] and content.lower().count(b"http-equiv") == 1
