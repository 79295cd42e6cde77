"""Counts of the repository: hand-written SQL, and words of a private vocabulary."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT
from tests.architecture import sources
from tests.architecture.sources import Source

SQL = re.compile(
    r"^\s*(SELECT\s+\S|INSERT\s+(OR\s+\w+\s+)?INTO\b|UPDATE\s+\S+\s+SET\b|DELETE\s+FROM\b"
    r"|WITH\s+\w+\s+AS\b|(CREATE|ALTER|DROP)\s+[A-Z]+|PRAGMA\s|VACUUM\b|TRUNCATE\s|LISTEN\s|NOTIFY\s)"
    r"|\b(WHERE|RETURNING|FROM|JOIN|ON CONFLICT|ORDER BY|FOR UPDATE)\b"
)
# Words that have a meaning of their own only here, or that describe things by persons.
METAPHORS = [
    *("doors?", "desks?", "knock(?:s|ed|ing)?", "eyes", "lanes?", "lean", "rooms?"),
    *("houses?", "visits?", "company", "beats?"),
]
PERSONS = ["nobody", "everybody", "whoever"]
IN_NAMES = re.compile(rf"(?:{'|'.join([*METAPHORS, *PERSONS, 'together', 'who', 'what'])})")
IN_PROSE = re.compile(
    rf"\b(?:{'|'.join([*METAPHORS, *PERSONS, 'together'])})\b"
    # A sentence that begins with Who or What and is no question.
    r"|(?:(?<=\A)|(?<=[.:;!\]]\s)|(?<=\n\n))(?:who|what)\b(?![^.\n]*\?)",
    re.IGNORECASE,
)
# The third-party names of things: no vocabulary of ours.
TERMS = re.compile(r"celery beat|👀", re.IGNORECASE)
SHOWN = re.compile(r'(?:title|alt|placeholder|aria-label|label|content)="([^"{]*)"')


def is_text(value: str) -> bool:
    """Return whether a constant is text for a reader: it has a space between letters."""
    return re.search(r"[A-Za-z] [A-Za-z]", value) is not None


def constants(source: Source) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string in a module but its docstrings; an f-string is one."""
    skipped: set[int] = set()
    for named in (source.tree, *source.named):
        if named.body and isinstance(named.body[0], ast.Expr):
            skipped.add(id(named.body[0].value))
    for node in ast.walk(source.tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            skipped.update(map(id, parts))
            yield node.lineno, "…".join(str(part.value) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def statements() -> list[tuple[str, int, str]]:
    """Return path, line and text of every SQL statement, or part of one, outside core/database."""
    return [
        (source.path, line, text)
        for source in sources.production()
        if not source.path.startswith("core/database/")
        for line, text in constants(source)
        if SQL.search(text)
    ]


def words_of(text: str) -> list[str]:
    """Return the words of the list in a text."""
    return [match.group(0).lower() for match in IN_PROSE.finditer(TERMS.sub("", text))]


def words_of_names(source: Source) -> list[str]:
    """Return the words of the list in the names of a module, its classes and its functions."""
    names = [Path(source.path).stem, *(node.name for node in source.named)]
    return [
        part
        for name in names
        for part in re.findall(r"[A-Z]?[a-z]+", name)
        if IN_NAMES.fullmatch(part.lower())
    ]


def package_of(path: str) -> str:
    """Return the package of a file: ``core/agent/loop.py`` -> core/agent; tests keep a level
    more."""
    parts = path.split("/")
    depth = {"tests": 3, "docs": 2}.get(parts[0], 2)
    return "/".join(parts[: min(depth, len(parts) - 1)]) or "."


def shown_in_template(text: str) -> str:
    """Return the visible text of a template: text between tags, and attributes with words."""
    text = re.sub(r"(?s){#.*?#}|{%.*?%}|{{.*?}}|<!--.*?-->|<(script|style)\b.*?</\1>", " ", text)
    return "\n".join([*SHOWN.findall(text), re.sub(r"(?s)<[^>]*>", "\n", text)])


def shown_in_script(text: str) -> str:
    """Return the strings of a script that are text for a reader."""
    text = re.sub(r"(?m)(?s:/\*.*?\*/)|(?:^|\s)//.*$", " ", text)
    found = re.findall(r"\"([^\"\n]*)\"|'([^'\n]*)'|`([^`]*)`", text)
    return "\n\n".join(value for each in found for value in each if is_text(value))


def texts() -> Iterator[tuple[str, str]]:
    """Yield package and text of user-facing texts: templates, scripts, labels and messages in
    Python."""
    for path in sorted((ROOT / "templates").rglob("*.html")):
        yield package_of(path.relative_to(ROOT).as_posix()), shown_in_template(path.read_text())
    for top in ("channels_app/static", "gateway_project/static"):
        for path in sorted((ROOT / top).rglob("*.js")):
            yield top, shown_in_script(path.read_text())
    for source in sources.production():
        for _, value in constants(source):
            if is_text(value):
                yield package_of(source.path), value


def words() -> dict[str, Counter[str]]:
    """Count the words of the list by kind of place and package."""
    found: dict[str, Counter[str]] = {
        kind: Counter() for kind in ("prose", "names", "texts", "documents")
    }
    for source in (*sources.production(), *sources.read("tests")):
        package = package_of(source.path)
        found["prose"][package] += len(words_of(source.prose()))
        found["names"][package] += len(words_of_names(source))
    for package, text in texts():
        found["texts"][package] += len(words_of(text))
    for path, text in sources.documents():
        found["documents"][path if path.count("/") < 2 else package_of(path)] += len(words_of(text))
    return found


def counts() -> dict[str, dict[str, int]]:
    """Return all counts that have a ceiling, without the zeros: kind -> place -> number."""
    sql = Counter(path for path, _, _ in statements())
    return {
        kind: {place: number for place, number in sorted(counted.items()) if number}
        for kind, counted in {"sql": sql, **words()}.items()
    }
