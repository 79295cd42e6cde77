"""The export of a person: complete, without secrets, readable from the disk."""

import errno
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db.models import Model

from allowlist import keys
from core.files import storage
from core.models import ChannelAccount, ChatSession, StoredFile, User
from gateway_project.home import BASE_DIR
from gateway_project.personal_data import exporting, tables
from gateway_project.personal_data.tables import LEFT_OUT, SECTIONS
from tests.gateway_project.personal_data import everything

WORD, OTHER = "quagganym", "okapistic"
# Columns whose values are secrets, or keys by which they are known.
SECRETS = re.compile(r"digest|hash|secret|token$|password|endpoint|p256dh|^auth$|session_key")


@pytest.fixture
def people(transactional_db: None, settings: Any, tmp_path: Path) -> dict[str, User]:
    """Return two people, by the word that is in all their texts."""
    settings.GATEWAY_HOME = tmp_path / "home"
    User.objects.create(username="boss", is_owner=True)
    account = ChannelAccount.objects.create(channel="memory", name="one")
    shared = ChannelAccount.objects.create(channel="memory", name="two")
    return {word: everything.build("ann", word, account, shared) for word in (WORD, OTHER)}


@pytest.fixture
def exported(people: dict[str, User], tmp_path: Path) -> Path:
    call_command("person", "export", people[WORD].username, "--to", str(tmp_path / "out"))
    return tmp_path / "out"


def everything_in(exported: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((exported / "person.json").read_bytes())
    return found


def test_x20_every_model_with_a_way_to_a_person_is_exported_or_left_out_with_a_reason() -> None:
    """[X20] By a foreign key over any number of tables, or by the name of a column."""
    exported = {section.model._meta.label for section in SECTIONS}
    known = exported | set(LEFT_OUT)
    ways = {model._meta.label for model in everything.reachable()}
    assert len(ways) > 40
    assert ways - known == set(), "export these, or say in LEFT_OUT why not"
    assert known - ways == set()
    assert exported & set(LEFT_OUT) == set()
    assert all(len(reason) > 15 for reason in LEFT_OUT.values())


def test_x20_a_new_model_would_be_found() -> None:
    """[X20] The walk is not blind."""

    class Diary(Model):
        class Meta:
            app_label = "core"

        def __str__(self) -> str:
            return "a diary"

    try:
        assert Diary not in everything.reachable()
        field: Any = StoredFile._meta.get_field("session").clone()
        field.contribute_to_class(Diary, "session")
        apps.clear_cache()
        assert Diary in everything.reachable()
    finally:
        del apps.all_models["core"]["diary"]
        apps.clear_cache()


def test_x20_every_section_has_the_rows_of_the_person_alone(
    people: dict[str, User], exported: Path
) -> None:
    """[X20]"""
    found = everything_in(exported)
    assert (found["format"], found["version"]) == ("latchkey person", 1)
    assert found["person"]["username"] == people[WORD].username
    for section in SECTIONS:
        rows = found[section.name]
        assert rows, section.name
        assert len(rows) == section.rows(people[WORD]).count(), section.name
        names = [exporting.plain(field) for field in section.fields.split()]
        extra = ["path"] if section.name == "files" else []
        assert list(rows[0]) == [*names, *extra], section.name
    written = "\n".join(
        each.read_text(errors="replace") for each in exported.rglob("*") if each.is_file()
    )
    assert OTHER not in written


def test_x20_conversations_and_files_are_there_as_they_were(
    people: dict[str, User], exported: Path
) -> None:
    """[X20] A conversation as Markdown; a file byte for byte, under a name of its own."""
    found = everything_in(exported)
    said = found["messages"][0]["text"]
    texts = [each.read_text() for each in (exported / "conversations").glob("*.md")]
    assert len(texts) == ChatSession.objects.filter(user=people[WORD]).count() == 2
    assert any(found["messages"][0]["data"]["said"] in text for text in texts), said
    [file] = found["files"]
    row = StoredFile.objects.get(public_id=file["public_id"])
    assert (exported / file["path"]).read_bytes() == storage.read(row)
    assert file["path"].endswith(".txt")


def test_x21_an_export_has_no_secret(people: dict[str, User], tmp_path: Path) -> None:
    """[X21] No column of a secret is named; no key, hash or address of a browser is in a file."""
    for section in SECTIONS:
        named = {part for field in section.fields.split() for part in field.split("__")}
        assert not {name for name in named if SECRETS.search(name)} - {"sha256"}, section.name
    user = people[WORD]
    user.set_password("correct horse")
    user.save()
    key, token = keys.create(name="phone", user=user, scopes=["chat"])
    browser = user.push_subscriptions.get()
    call_command("person", "export", user.username, "--to", str(tmp_path / "two"))
    written = b"".join(
        each.read_bytes() for each in (tmp_path / "two").rglob("*") if each.is_file()
    )
    for secret in (token, key.digest, user.password, browser.endpoint, browser.session_key):
        assert secret.encode() not in written
    assert b'"name":"phone"' in written


class Page(HTMLParser):
    """Tags, links and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_x22_the_page_has_no_script_and_its_links_lead_to_files(
    people: dict[str, User], tmp_path: Path
) -> None:
    """[X22] Names of people and files are texts in it, and no path leads out of the folder."""
    user = people[WORD]
    bad = '<script>alert("x")</script>'
    storage.keep(user=user, name=f"../../{bad}.html", content=b"<b>")
    ChatSession.objects.filter(user=user).update(title=f"../{bad}")
    User.objects.filter(pk=user.pk).update(display_name=bad)
    folder = tmp_path / "deep" / "out"
    call_command("person", "export", user.username, "--to", str(folder))
    page = Page()
    page.feed((folder / "index.html").read_text())
    assert "script" not in page.tags
    assert page.text.count(bad) >= 3
    assert len(page.links) >= 5
    for link in page.links:
        assert (folder / link).resolve().is_relative_to(folder.resolve()), link
        assert (folder / link).is_file(), link
    assert {each.name for each in tmp_path.iterdir()} == {"deep", "home"}
    assert {each.name for each in folder.parent.iterdir()} == {"out"}
    assert folder.stat().st_mode & 0o077 == 0


def test_x22_links_of_the_markdown_lead_to_files(people: dict[str, User], tmp_path: Path) -> None:
    """[X22]"""
    user = people[WORD]
    file = StoredFile.objects.get(user=user)
    row = user.sessions.exclude(messages=None).get().messages.get()
    row.data = {"media": [{"name": "a picture", "file": file.public_id}]}
    row.save()
    call_command("person", "export", user.username, "--to", str(tmp_path / "out"))
    texts = [(each, each.read_text()) for each in (tmp_path / "out").glob("conversations/*.md")]
    [(place, link)] = [
        (each, found[1]) for each, text in texts if (found := re.search(r"\]\((.*)\)", text))
    ]
    assert (place.parent / link).read_bytes() == storage.read(file)


def test_x22_an_export_overwrites_nothing(people: dict[str, User], exported: Path) -> None:
    """[X22] And what was interrupted does not look like an export."""
    before = (exported / "person.json").read_bytes()
    with pytest.raises(CommandError, match="there already"):
        call_command("person", "export", people[WORD].username, "--to", str(exported))
    assert (exported / "person.json").read_bytes() == before
    with pytest.raises(CommandError, match="no person"):
        call_command("person", "export", "absent", "--to", str(exported.parent / "x"))
    assert not (exported.parent / "x").exists()


def test_x22_an_export_into_the_folder_of_the_shell(
    people: dict[str, User], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X22] It is new, and empty."""
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    call_command("person", "export", people[WORD].username, "--to", ".")
    assert (tmp_path / "new" / "index.html").exists()


def test_x22_an_export_that_finds_the_disk_full_does_not_leave_it_full(
    people: dict[str, User], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X22] All that it had written goes, and it can be asked for again."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(exporting, "write_json", full)
    for _ in range(2):
        with pytest.raises(CommandError, match="No space left"):
            call_command("person", "export", people[WORD].username, "--to", str(tmp_path / "out"))
        assert not [each for each in tmp_path.iterdir() if "out" in each.name]


def test_x20_the_table_of_the_format_is_that_of_the_code() -> None:
    """[X20] docs/personal-data.md names all sections and fields, and the version."""
    text = (BASE_DIR / "docs" / "personal-data.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, flags=re.MULTILINE))
    assert f"version {tables.VERSION}" in text
    wanted = {"person": tables.PERSON} | {each.name: each.fields for each in SECTIONS}
    named = {
        name: " ".join(f"`{exporting.plain(field)}`" for field in fields.split())
        for name, fields in wanted.items()
    }
    named["files"] += " `path`"
    assert rows == named
    _, _, table = text.partition("Not in an export:")
    left = re.findall(r"^\| (\w+) \| (\w.*) \|$", table, flags=re.MULTILINE)
    assert dict(left[1:]) == {label.partition(".")[2]: why for label, why in LEFT_OUT.items()}
