"""The shape of the repository: modules a package, floors, SQL outside core/database, words."""

from pathlib import Path

import pytest

from channels_app import registry
from tests import ROOT
from tests.architecture import ceilings, contracts, measures, sources

MOST_ENTRIES = {"core": 20, "channels_app": 26}  # beside the folders of channels
MOST_FLOORS = 8


def entries(package: Path) -> set[str]:
    """Return the modules and packages directly in a package."""
    found = {path.name for path in package.iterdir() if path.is_dir() or path.suffix == ".py"}
    return {name for name in found if not name.startswith("__")}


@pytest.mark.parametrize("package", MOST_ENTRIES)
def test_a_package_has_few_entries(package: str) -> None:
    assert len(entries(ROOT / package) - {*registry.CHANNELS}) <= MOST_ENTRIES[package]


def test_each_contract_of_layers_has_few_floors() -> None:
    floors = {each.container: len(each.floors) for each in contracts.layers()}
    assert floors.keys() == {"", "core", "channels_app", "channels_app.client_api"}
    assert max(floors.values()) <= MOST_FLOORS


def test_the_contract_about_telegram_holds_for_all_other_modules() -> None:
    contract = contracts.forbidden("only channels_app.telegram imports telegram")
    assert set(contract["source_modules"]) == set(sources.PACKAGES)
    assert contract["ignore_imports"] == ["channels_app.telegram.* -> telegram"]


@pytest.mark.parametrize("package", ["core", "channels_app", "gateway_project", "allowlist"])
def test_each_folder_of_tests_has_its_package(package: str) -> None:
    folders = {path.name for path in (ROOT / "tests" / package).iterdir() if path.is_dir()}
    folders -= {"__pycache__"}
    assert folders - {path.name for path in (ROOT / package).iterdir() if path.is_dir()} == set()


def test_no_count_is_above_its_ceiling() -> None:
    assert ceilings.above(measures.counts(), ceilings.load()) == []


def test_a_count_above_its_ceiling_is_found_and_a_lower_one_is_written() -> None:
    assert ceilings.above({"sql": {"a.py": 1, "b.py": 2}}, {"sql": {"b.py": 2}}) == [
        "sql: a.py: 1, at most 0"
    ]
    assert '[sql]\n"a.py" = 1\n' in ceilings.dump({"sql": {"a.py": 1}})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Nobody knows.", ["nobody"]),
        ("The door of a desk.", ["door", "desk"]),
        ("Who may speak.", ["who"]),
        ("[A5] Who may speak.", ["who"]),
        ("Who may speak?", []),
        ("The person who asked.", []),
        ("Celery beat is not used; heartbeats are.", []),
    ],
)
def test_words_of_the_list_are_found(text: str, found: list[str]) -> None:
    assert measures.words_of(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT id FROM core_run", True),
        ("WITH owned AS (SELECT 1)", True),
        (" ORDER BY id", True),
        ("Select an account from the list.", False),
        ("update", False),
    ],
)
def test_sql_is_found(text: str, found: bool) -> None:
    assert (measures.SQL.search(text) is not None) == found


def test_a_readers_text_is_taken_out_of_templates_and_scripts() -> None:
    template = '{# desk #}<a title="a door" class="desk">{% if desk %}the eyes{% endif %}</a>'
    assert measures.words_of(measures.shown_in_template(template)) == ["door", "eyes"]
    script = "// the desk\nconst desk = 'desk'; say(\"At the door\");"
    assert measures.words_of(measures.shown_in_script(script)) == ["door"]
