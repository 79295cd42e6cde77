"""The texts in the sources, as gettext names them: by file, singular, plural and context."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from babel.messages.extract import extract
from django.utils.translation.template import templatize

from gateway_project.home import BASE_DIR

PACKAGES = ("allowlist", "channels_app", "core", "gateway_project")
TEMPLATES = BASE_DIR / "templates"
SCRIPTS = BASE_DIR / "channels_app" / "static" / "latchkey"
# The calls that Django makes of the tags of a template.
KEYWORDS: dict[str, tuple[int | tuple[int, str], ...] | None] = {
    "_": None,
    "gettext": None,
    "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}
PLAIN, CONTEXTUAL = {"gettext", "ngettext"}, {"pgettext", "npgettext"}
LITERAL = r'"((?:[^"\\]|\\.)*)"'
IN_SCRIPT = re.compile(
    rf"\b(?:gettext\(\s*{LITERAL}\s*,?\s*\)|ngettext\(\s*{LITERAL},\s*{LITERAL},)"
)
CALL = re.compile(r"(?<![\w.])n?gettext\(")


@dataclass(frozen=True, slots=True, order=True)
class Text:
    """A text of the catalogue, and a file that has it."""

    singular: str
    plural: str
    context: str
    file: str


def of_pages() -> Iterator[Text]:
    """Yield the texts of the domain ``django``: those of templates and of Python."""
    for path in sorted(TEMPLATES.rglob("*.html")):
        yield from of_template(path.read_text("utf-8"), name(path))
    for path in modules():
        yield from of_python(path.read_text("utf-8"), name(path))


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((BASE_DIR / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def name(path: Path) -> str:
    return path.relative_to(BASE_DIR).as_posix()


def without_indents(source: str) -> str:
    """Return what Django makes of a template for xgettext, as lines that Python can read."""
    return re.sub(r"(?m)^[ \t]+", "", source)


def of_template(source: str, file: str) -> Iterator[Text]:
    """Yield the texts of a template."""
    code = without_indents(templatize(source))
    found = extract("python", BytesIO(code.encode()), KEYWORDS, (), {"encoding": "utf-8"})
    for _, message, _, context in found:
        singular, plural = (message, "") if isinstance(message, str) else message[:2]
        yield Text(singular, plural, context or "", file)


def of_python(source: str, file: str) -> Iterator[Text]:
    """Yield the texts that Python code marks: the literals among the arguments."""
    if "gettext" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            given = [each.value for each in node.args if isinstance(each, ast.Constant)]
            texts = [each for each in given if isinstance(each, str)]
            name = node.func.id.removesuffix("_lazy").removesuffix("_noop")
            context = texts.pop(0) if name in CONTEXTUAL and texts else ""
            if name in PLAIN | CONTEXTUAL and texts:
                yield Text(texts[0], texts[1] if len(texts) > 1 else "", context, file)


def of_scripts() -> Iterator[Text]:
    """Yield the texts of the domain ``djangojs``. Raises ValueError for one that is no literal."""
    for path in sorted(SCRIPTS.glob("*.js")):
        yield from of_script(path.read_text("utf-8"), name(path))


def of_script(source: str, file: str) -> Iterator[Text]:
    code = re.sub(r"(?m)^\s*//.*$", "", source)
    found = list(IN_SCRIPT.finditer(code))
    if len(found) != len(CALL.findall(code)):
        raise ValueError(f"{file}: gettext and ngettext take texts in double quotes.")
    for each in found:
        one, first, many = (unescaped(text or "") for text in each.groups())
        yield Text(one or first, many, "", file)


def unescaped(literal: str) -> str:
    return literal.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
