"""Export and forgetting in the admin."""

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from allowlist.models import AuditEntry
from allowlist.unfinished_forgetting import BEGUN, DONE
from core.models import ChannelAccount, StoredFile, User
from tests.gateway_project.personal_data import everything

pytestmark = pytest.mark.django_db(transaction=True)
WORD = "quagganym"


@pytest.fixture
def ann(settings: Any, tmp_path: Path) -> User:
    """Return a person with rows in every table."""
    settings.GATEWAY_HOME = tmp_path
    User.objects.create(username="boss", is_owner=True, is_staff=True, is_superuser=True)
    account = ChannelAccount.objects.create(channel="memory", name="one")
    shared = ChannelAccount.objects.create(channel="memory", name="two")
    return everything.build("ann", WORD, account, shared)


@pytest.fixture
def boss(ann: User, client: Client) -> Client:
    client.force_login(User.objects.get(username="boss"))
    return client


def test_x23_an_owner_downloads_an_export(ann: User, boss: Client) -> None:
    """[X23] The same files as those of the command, as one archive; audited; by POST only."""
    page = boss.get(f"/admin/core/user/{ann.pk}/change/").content.decode()
    assert f"/admin/core/user/{ann.pk}/export/" in page
    assert boss.get(f"/admin/core/user/{ann.pk}/export/").status_code == 405
    answer = boss.post(f"/admin/core/user/{ann.pk}/export/")
    assert "no-store" in answer.headers["Cache-Control"]
    assert "attachment" in answer.headers["Content-Disposition"]
    content = b"".join(answer.streaming_content)  # type: ignore[attr-defined]
    assert int(answer.headers["Content-Length"]) == len(content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert {"person.json", "index.html"} <= set(names)
        assert ann.username.encode() in archive.read("person.json")
        file = StoredFile.objects.get(user=ann)
        assert any(name.endswith(file.name) for name in names)
    assert AuditEntry.objects.latest("id").action == "person.exported"


def test_x23_on_a_full_disk_the_person_s_page_says_so(
    ann: User, boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X23] It was a page of an error."""
    full = Path("/dev/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full.open("r+b", buffering=0))
    answer = boss.post(f"/admin/core/user/{ann.pk}/export/", follow=True)
    assert answer.redirect_chain == [(f"/admin/core/user/{ann.pk}/change/", 302)]
    assert "The export could not be written: No space left on device." in answer.content.decode()
    assert not AuditEntry.objects.filter(action="person.exported").exists()


def test_x23_the_page_counts_all_that_goes_and_asks_for_the_name(ann: User, boss: Client) -> None:
    """[X23] Nothing goes by a GET, or by another name."""
    address = f"/admin/core/user/{ann.pk}/forget/"
    assert address in boss.get(f"/admin/core/user/{ann.pk}/change/").content.decode()
    page = boss.get(address).content.decode()
    for title, number in (("Conversations", 2), ("Files", 1), ("Addresses on channels", 1)):
        assert f"<td>{title}</td><td>{number}</td>" in page
    assert boss.post(address, {"name": "boss"}).status_code == 400
    assert boss.post(address).status_code == 400
    assert User.objects.get(pk=ann.pk).is_active
    if connection.vendor == "postgresql":
        # As it does of its own accord. Of tables that are empty then it would keep the statistics.
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        assert any(each.startswith("pg_stats.") for each in everything.places_of(WORD))
    answer = boss.post(address, {"name": ann.username}, follow=True)
    said = answer.content.decode()
    assert "All is removed." in said
    assert "Being cleaned by a worker" in said
    rows = [place for place in everything.places_of(WORD) if not place.startswith("pg_stats.")]
    assert rows == []
    assert AuditEntry.objects.get(action=BEGUN).actor.endswith(" boss")
    assert not AuditEntry.objects.filter(action=DONE).exists()
    call_command("person", "clean")
    assert everything.places_of(WORD) == []
    assert "Being cleaned" not in boss.get("/admin/core/user/").content.decode()
    assert AuditEntry.objects.filter(action=DONE).exists()
    assert boss.get(address).status_code == 404


def test_x23_others_get_neither(ann: User, boss: Client) -> None:
    """[X23] [X28] Staff with every permission that are no owners; an owner at people with rights,
    at themselves, and at the last owner."""
    from django.contrib.auth.models import Permission

    del boss
    staff = User.objects.create(username="staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.all())
    owner = User.objects.create(username="second", is_staff=True, is_owner=True)
    owner.user_permissions.set(Permission.objects.all())
    root = User.objects.get(username="boss")
    for who, target, status in (
        (staff, ann, 403),
        (owner, root, 403),
        (owner, owner, 403),
        (ann, ann, 404),
        (owner, ann, 200),
    ):
        browser = Client()
        browser.force_login(who)
        assert browser.get(f"/admin/core/user/{target.pk}/forget/").status_code == status
        export = browser.post(f"/admin/core/user/{target.pk}/export/")
        assert export.status_code == (200 if (who, target) == (owner, owner) else status)
        export.close()
        if status != 200:
            name = {"name": target.username}
            post = browser.post(f"/admin/core/user/{target.pk}/forget/", name)
            assert post.status_code == status
            shown = browser.get(f"/admin/core/user/{target.pk}/change/").content.decode()
            assert f"/admin/core/user/{target.pk}/forget/" not in shown
    assert User.objects.filter(is_active=True).count() == 4


def test_x28_a_superuser_does_not_forget_the_last_owner(ann: User, boss: Client) -> None:
    """[X28] The page says why and has no button."""
    User.objects.filter(username="boss").update(is_owner=False)
    User.objects.filter(pk=ann.pk).update(is_owner=True)
    address = f"/admin/core/user/{ann.pk}/forget/"
    assert "last owner" in boss.get(address).content.decode()
    assert boss.post(address, {"name": ann.username}).status_code == 400
    assert User.objects.get(pk=ann.pk).is_active
