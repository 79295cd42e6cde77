"""[W66] No text outside the catalogue: in templates, in scripts, in Python."""

from pathlib import Path

import pytest

from tests.catalogues import python, scripts, sources, templates

# Of the admin, whose own texts are English so far (docs/languages.md says what is left).
OF_ADMIN = ("admin", "dashboard", "language_models", "mcp", "unfold", "web_search")
# Of the pages that the assistant makes.
OF_ASSISTANT = ("pages",)
PEOPLE = [
    path
    for path in sorted(sources.TEMPLATES.rglob("*.html"))
    if path.relative_to(sources.TEMPLATES).parts[0] not in OF_ADMIN + OF_ASSISTANT
]
SCRIPTS = [path for path in sorted(sources.SCRIPTS.glob("*.js")) if path.name != "highlight.js"]


@pytest.mark.parametrize("path", PEOPLE, ids=sources.name)
def test_w66_templates_have_no_text_outside_the_catalogue(path: Path) -> None:
    assert [*templates.outside(path.read_text("utf-8"))] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=sources.name)
def test_w66_scripts_have_no_text_outside_the_catalogue(path: Path) -> None:
    assert [*scripts.outside(path.read_text("utf-8"))] == []


@pytest.mark.parametrize("path", [*python.modules()], ids=sources.name)
def test_w66_python_has_no_text_outside_the_catalogue(path: Path) -> None:
    assert [*python.outside(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("<p>Hello</p>", ["Hello"]),
        ('<p title="Hello there"></p>', ["Hello there"]),
        ("{% if a %}Yes{% else %}{{ b }}{% endif %}", ["Yes"]),
        ('{{ name|default:"Not yet" }}', ["Not yet"]),
        ('{{ name|default:_("Not yet") }}{% translate "Hello" %} · <kbd>Esc</kbd>', []),
        (
            "{% blocktranslate %}Hello {{ name }}{% endblocktranslate %}<style>p { a: b }</style>",
            [],
        ),
        ('<a class="button" href="/files">{{ name }}</a>{# a comment #}', []),
    ],
)
def test_w66_a_text_of_a_template_is_found(template: str, found: list[str]) -> None:
    assert [*templates.outside(template)] == found


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('toast("Not saved.");', ["Not saved."]),
        ('el("p.note", {}, "Hello");', ["Hello"]),
        ("node.title = `${count} files left`;", ["files left"]),
        ('node.title = `${name ? "Open it" : ""}`;', ["Open it"]),
        ('toast(gettext("Not saved."));', []),
        ('filled(ngettext("{count} file left", "{count} files left", n), { count: n });', []),
        ('document.querySelector("#model-names option"); // It says: "Hello there".', []),
        ('const parts = /"Hello there"/.exec(text);', []),
    ],
)
def test_w66_a_text_of_a_script_is_found(script: str, found: list[str]) -> None:
    assert [each.strip() for each in scripts.outside(script)] == found


@pytest.mark.parametrize(
    ("module", "found"),
    [
        ('"""A docstring."""\nSAID = "Not saved."', ["Not saved."]),
        ('def said():\n    return f"Hello {name}, welcome here."', [", welcome here."]),
        ('SAID = gettext_lazy("Not saved.")\nlogger.info("Not saved at all.")', []),
        ('raise RefusedError(400, "text must be a string.", field="text")', []),
        ('raise RefusedError(404, "This chat is gone.")', ["This chat is gone."]),
    ],
)
def test_w66_a_text_of_python_is_found(module: str, found: list[str]) -> None:
    assert [*python.outside(module)] == found


def test_w66_all_sources_are_searched() -> None:
    assert len(PEOPLE) > 20
    assert len(SCRIPTS) > 25
    assert len([*python.modules()]) > 60
