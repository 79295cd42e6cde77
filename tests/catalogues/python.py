"""Texts in Python that are outside of the catalogue, in the modules that speak to people."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from core.tools import phrases
from gateway_project.home import BASE_DIR
from tests.catalogues.sources import CONTEXTUAL, PLAIN

# The modules that speak to people; the admin's own texts are English so far (docs/languages.md).
MODULES = (
    "allowlist/link_codes.py",
    "allowlist/unknown_requests.py",
    "channels_app/admin/first_run",
    "channels_app/asgi/admission.py",
    "channels_app/asgi/middleware.py",
    "channels_app/asgi/throttling.py",
    "channels_app/intake",
    "channels_app/owner",
    "channels_app/push",
    "channels_app/rendering/translations.py",
    "channels_app/replies",
    "channels_app/schedules",
    "channels_app/tool_requests",
    "channels_app/trace",
    "channels_app/webchat",
    "core/conversations/assistants.py",
    "core/conversations/budget_words.py",
    "core/conversations/schedules/changes.py",
    "core/conversations/schedules/zones.py",
    "core/files/quota.py",
    "core/providers/addresses.py",
    "core/providers/examine.py",
    "core/providers/failures.py",
    "core/providers/findings.py",
    "core/providers/vendors.py",
)
MARKS = {f"{name}{end}" for name in PLAIN | CONTEXTUAL for end in ("", "_lazy", "_noop")}
# Calls with texts for programs, logs, developers and the audit.
FOR_PROGRAMS = {"BadRequestError", "HttpResponseBadRequest", "ChannelError", "NotImplementedError"}
FOR_PROGRAMS |= {"Http404", "ValueError", "TypeError", "record", "compile", "CannotReadAgainError"}
LOGS = {"debug", "info", "warning", "error", "exception", "critical"}
SENTENCE = re.compile(
    r"^[^\W\d_a-z]\w*(?:[,:;]? [^\W\d_]+|…$|\.$)|[^\W\d_]{2,}\.$|[a-z]{2,} [a-z]{2,} [a-z]"
)
TECHNICAL = re.compile(r"%\(|redis\.call|\||^FREQ=|^[a-z-]+/|\\|script-src|'self'|=\(|^SELECT |; ")
KNOWN = set(phrases.SENTENCES)
# Names and rules; texts for the audit, for the model, or for programs; sentences that
# `phrases` lists whole, with their variable parts.
LEFT = {
    "A browser",
    "(The person stopped this answer here, and has seen no more of it.)",
    "Mac OS",
    "Samsung Internet",
    "endpoint must be an https address.",
    "keys must hold p256dh and auth of the browser.",
    "id must be the number of a browser.",
    "by must be tap, page or worker.",
    "A bridge sends files as data URLs.",
    "Google Gemini",
    "Say ready.",
    "The stored keys cannot be opened.",
    "The browser has signed in anew.",
    "a message was accepted",
    "The address is inside the network, and the provider's settings do not allow that.",
    "The key cannot be decrypted: GATEWAY_ENCRYPTION_KEYS was changed.",
    "The provider's kind is not known.",
    "It was not delivered:",
    "Not yet:",
    "The file could not be read.",
    "No word is heard in it.",
    "The model is busy (rate limit). Please try again in",
    "The rest of the budget for {when} is not enough for this message.",
    "The time is missing: give at, minutes or rule.",
    "The worker that sent it is gone.",
    "There is no such account.",
    "This key has no scope 'admin:requests'.",
    "Too many unanswered messages.",
    "[Only the first",
    "pictures are shown.]",
    "You can go on from {moment}.",
    "a command of before the approval",
    "an event number",
    "came in by an open list",
    "every account of",
    "held for too long",
    "link in a notice",
    "minutes must be more than 0, and at most ten years.",
    "no such request",
    "noopener noreferrer nofollow",
    "not an owner",
    "the request expired",
    "was sent before, with another body.",
    "www.",
}
STARTS_LEFT = ("The tokens for {when}", "The budget for {when}", "The messages for {when}")


def modules() -> Iterator[Path]:
    for each in MODULES:
        path = BASE_DIR / each
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def outside(source: str) -> Iterator[str]:
    """Yield each literal that looks like words for people and is not marked."""
    tree = ast.parse(source)
    skipped = {id(each) for each in marked(tree)} | {id(each) for each in documented(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.strip()
            is_words = SENTENCE.search(text) and not TECHNICAL.search(text)
            is_left = text in KNOWN | LEFT or text.startswith(STARTS_LEFT)
            if is_words and id(node) not in skipped and not is_left:
                yield text


def marked(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what is inside calls whose literals need no mark, or have it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        names_field = name == "RefusedError" and any(each.arg == "field" for each in node.keywords)
        if name in MARKS | FOR_PROGRAMS | LOGS or names_field:
            yield from ast.walk(node)


def documented(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield docstrings, and texts of assertions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        elif isinstance(node, ast.Assert):
            yield from ast.walk(node)
