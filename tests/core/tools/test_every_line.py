"""[V23] Each line of a tool or of its long task that people see has a translation.

The sources are read: the arguments of the calls in SHOWN, and the results of the functions in
LINES.
"""

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from django.conf import settings

from channels_app.tool_requests import asking, deciding
from core.agent import approvals
from core.conversations.jobs import View
from core.lib import safe_fetch
from core.providers.failures import KINDS
from core.tools import phrases, registry, waiting
from core.tools.sentences import SENTENCES

NOT_READ = "The address could not be read: "
# Why an address was not read (``core.lib.safe_fetch.FetchError``).
REASONS = tuple(
    each.removeprefix(NOT_READ).removesuffix(".")
    for each in SENTENCES
    if each.startswith(NOT_READ) and "{0}" not in each
)
ROOT = Path(settings.BASE_DIR)
FOLDERS = ("core/tools", "core/plugins", "core/jobs_worker", "core/documents")
OTHERS = ("core/conversations/jobs.py",)
NO_LINES = {"intents.py", "testing.py", "phrases.py"}
# Name of a call -> the argument that people see: its position, or its name.
SHOWN: dict[str, tuple[int | str, ...]] = {
    "PluginError": (0,),
    "DocumentError": (0,),
    "UnreadableError": (0,),
    "progress": (0,),
    "in_language": (0,),
    "PluginResult": (0, "note"),
    "Source": ("note",),
    "ToolResult": ("shown",),
    "fail": ("error",),
    "failed": (1,),
    "done": (1,),
}
LINES = {"progress", "running"}
HOSTS = {"host", "self.host"}
# Expressions that are no sentence of ours, with the reason.
CONTENT = {
    "self.line": "the line of each class is looked at",
    "running(name) if name != 'list' else ''": "what `running` returns is looked at",
    "str(error)": "the sentence of another error, which is looked at where it is raised",
    "str(end['error'])": "the sentence of the process that reads a document",
    "str(first or GONE)": "the sentence of another error, or one that is looked at",
    "f'{found[1]}.'": "the sentence of another error",
    "error": "the sentence of another error",
    "text": "a summary of the model",
    "'\\n'.join((line for line in lines if line))": "of lines that are translated one by one",
    "line": "translated by the caller",
    "message": "of the job",
    "note": "of the job, or assembled from sentences that are looked at",
    "'\\n'.join(notes)": "of sentences that are looked at",
    "said.strip() or 'Done.'": "the output of a script, or a sentence that is looked at below",
    "told(made, pages)": "tests/core/jobs_worker/test_phrases.py looks at it",
    "view.error": "of a job",
    "view.result.get('text', '')": "of a job",
    "REASON.sub(reason, note)": "of a job",
    "shown": "dates in words, by core.conversations.schedules.dates",
    "call.say(said)": "the line of `done`, which is looked at",
}


@dataclass(frozen=True, slots=True)
class Line:
    """An expression that people see, in a module."""

    path: Path
    node: ast.expr

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.node.lineno}: {ast.unparse(self.node)}"


def sources() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    found += [ROOT / each for each in OTHERS]
    return [path for path in found if path.name not in NO_LINES]


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def lines_of(path: Path) -> Iterator[Line]:
    """Yield the expressions of a module that people see."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield from (Line(path, each) for each in given(node))
        elif isinstance(node, ast.FunctionDef) and node.name in LINES:
            returns = [each for each in ast.walk(node) if isinstance(each, ast.Return)]
            yield from (Line(path, each.value) for each in returns if each.value is not None)
        elif isinstance(node, ast.ClassDef):
            named = [each for each in node.body if isinstance(each, ast.Assign)]
            yield from (
                Line(path, each.value) for each in named if name_of(each.targets[0]) == "line"
            )


def given(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments of a call that people see."""
    wanted = SHOWN.get(name_of(call.func), ())
    if name_of(call.func) == "progress" and not (
        isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in HOSTS
    ):
        return
    named = {each.arg: each.value for each in call.keywords}
    for each in wanted:
        if isinstance(each, int):
            yield from call.args[each : each + 1]
        elif each in named:
            yield named[each]
    is_final = isinstance(final := named.get("final"), ast.Constant) and final.value is True
    if name_of(call.func) == "ToolResult" and is_final:
        yield from call.args[:1]


def texts_of(node: ast.expr, module: ModuleType) -> Iterator[str]:
    """Yield the sentences of an expression, variable parts as numbers. Raises LookupError."""
    if ast.unparse(node) in CONTENT:
        return
    if isinstance(node, ast.Constant):
        yield str(node.value or "")
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            str(each.value) if isinstance(each, ast.Constant) else value_of(each, module)
            for each in node.values
        )
    elif isinstance(node, ast.IfExp):
        yield from texts_of(node.body, module)
        yield from texts_of(node.orelse, module)
    elif isinstance(node, ast.Call) and name_of(node.func) == "format":
        assert isinstance(node.func, ast.Attribute)
        for text in texts_of(node.func.value, module):
            yield text.format(*["7"] * 5)
    elif isinstance(node, ast.Call) and name_of(node.func) == "in_language":
        yield from texts_of(node.args[0], module)
    elif isinstance(node, ast.Name) and isinstance(getattr(module, node.id, None), str):
        yield getattr(module, node.id)
    else:
        raise LookupError(ast.unparse(node))


def value_of(part: ast.expr, module: ModuleType) -> str:
    """Return a constant of the module; a number for anything else."""
    assert isinstance(part, ast.FormattedValue)
    found = getattr(module, part.value.id, None) if isinstance(part.value, ast.Name) else None
    return found if isinstance(found, str) else "7"


def missing() -> Iterator[str]:
    for path in sources():
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for line in lines_of(path):
            try:
                texts = [*texts_of(line.node, module)]
            except LookupError:
                yield f"not understood: {line.place}"
                continue
            for text in texts:
                if text.strip() and not phrases.is_translated(text.replace("{0}", "7")):
                    yield f"not translated: {line.place}"


def test_v23_every_line_that_people_see_is_translated() -> None:
    """A new line needs its place in core/tools/sentences.py."""
    assert [*missing()] == []
    found = [line for path in sources() for line in lines_of(path)]
    assert len(found) > 60
    modules = {str(line.path.relative_to(ROOT)) for line in found}
    for path in registry.TOOLS.values():
        module = path.removesuffix(".TOOL").replace(".", "/")
        if module != "core/tools/current_time":  # it shows nothing
            assert f"{module}.py" in modules


WAITS = (approvals.WAITS_FOR_OWNER, approvals.WAITS_FOR_PERSON)
QUESTIONS = [*deciding.TEXTS.values(), *asking.LABELS.values(), *approvals.FOR_PERSON.values()]


@pytest.mark.parametrize("line", [*QUESTIONS, *WAITS])
def test_v23_questions_about_tools_and_their_outcomes_are_translated(line: str) -> None:
    assert phrases.is_translated(line.format("“weather”"))


@pytest.mark.parametrize("code", KINDS)
def test_v23_why_a_model_failed_within_a_long_task_is_translated(code: str) -> None:
    assert phrases.is_translated(KINDS[code].person)


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (
            "Not read: “a.pdf” (The document is protected with a password. Send it without one), "
            "“b (2).doc”.",
            "Nicht gelesen: “a.pdf” (Das Dokument ist mit einem Passwort geschützt. Schicke "
            "es ohne), “b (2).doc”.",
        ),
        ("Not read: “Paused.”.", "Nicht gelesen: “Paused.”."),
        ("Not read: “a” (because).", "Nicht gelesen: “a” (because)."),
    ],
)
def test_v23_the_reasons_within_a_note_are_translated(note: str, said: str) -> None:
    result = {"text": "Done.", "note": note}
    is_late = False
    view = View("succeeded", "", None, "", result, is_late, 0)
    assert waiting.told(view, "de").text == f"Erledigt.\n\n{said}"


def test_v23_each_reason_for_which_an_address_is_not_read_is_translated() -> None:
    tree = ast.parse((ROOT / "core/lib/safe_fetch.py").read_text(encoding="utf-8"))
    raised = [
        "".join(texts_of(node.args[0], safe_fetch))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name_of(node.func) == "FetchError"
    ]
    assert len(raised) > 6
    assert {text.replace("7", "{1}") for text in raised} == set(REASONS)


@pytest.mark.parametrize("language", phrases.ORDER)
def test_v23_an_address_that_was_not_read_says_why(language: str) -> None:
    text = "The address could not be read: the server answered 404."
    assert "404" in phrases.in_language(text, language)
    assert phrases.is_translated(text, [language])
