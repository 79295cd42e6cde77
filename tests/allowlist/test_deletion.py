"""Deletion of a person or an account by its page in the admin: in parts, and again after a kill."""

import re
from typing import Any

import pytest
from django.contrib.admin import site
from django.db import DatabaseError, connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from allowlist.models import AuditEntry
from core.database import dependents
from core.models import ChannelAccount, ChatSession, McpServer, Message, RunEvent, ToolCall, User
from tests.gateway_project.personal_data import everything

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def browser() -> Client:
    owner = User.objects.create(username="boss", is_owner=True, is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(owner)
    return client


@pytest.fixture(params=["user", "channelaccount"])
def row(request: pytest.FixtureRequest, browser: Client) -> Any:
    """Return a person with something in every table, or the account of it."""
    one, two = (ChannelAccount.objects.create(channel="memory", name=name) for name in "ab")
    person = everything.build("ann", "quagganym", one, two)
    return person if request.param == "user" else one


def page(row: Any) -> str:
    return reverse(f"admin:core_{row._meta.model_name}_delete", args=[row.pk])


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("action", flat=True))


def test_x58_the_page_counts_and_a_post_removes_all(browser: Client, row: Any) -> None:
    """[X58]"""
    shown = browser.get(page(row)).content.decode()
    messages = Message.objects.filter(session__in=dependents_of(row)).count()
    assert messages > 0
    assert re.search(rf"Messages:\s*{messages}\s", shown)
    assert browser.post(page(row), {"post": "yes"}).status_code == 302
    assert not type(row).objects.filter(pk=row.pk).exists()
    assert not dependents_of(row).exists()
    name = row._meta.model_name
    assert actions()[-2:] == [f"{name}.deletion_begun", f"{name}.deleted"]
    # The MCP server of this person alone, which would be open to all.
    server = McpServer.objects.get()
    assert server.enabled == (name != "user")
    told = AuditEntry.objects.filter(subject=f"mcpserver:{server.pk} {server}")
    off = {"enabled": [True, False]}
    assert [each.data for each in told] == ([] if server.enabled else [off])


@pytest.mark.parametrize("row", ["channelaccount"], indirect=True)
def test_x58_the_parts_of_an_account_s_runs_are_not_counted(browser: Client, row: Any) -> None:
    """[X58] There may be millions; without the right to delete them one removes nothing."""
    assert RunEvent.objects.filter(run__session__account=row).exists()
    with CaptureQueriesContext(connection) as asked:
        shown = browser.get(page(row)).content.decode()
    assert re.search(r"Runs:\s*[1-9]", shown)
    assert not [each for each in asked if "core_runevent" in each["sql"]]
    request = RequestFactory().get("/")
    request.user = User.objects.create(username="eve", is_staff=True, is_owner=False)
    page_of = site._registry[ChannelAccount]
    _, _, kept, _ = page_of.get_deleted_objects([row], request)
    far = {each.model for each in dependents.of(ChannelAccount) if each.steps > 2}
    assert {ToolCall._meta.verbose_name, ChannelAccount._meta.verbose_name} <= kept
    assert ToolCall in far


def dependents_of(row: Any) -> Any:
    key = "user" if isinstance(row, User) else "account"
    return ChatSession.objects.filter(**{f"{key}_id": row.pk})


def test_x58_a_deletion_that_was_cut_off_is_repeated(
    browser: Client, row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X58] Between two transactions: the row is there, and of no use to anyone."""
    left = [3]
    remove = dependents.remove

    def cut(rows: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return remove(rows)

    monkeypatch.setattr(dependents, "remove", cut)
    with pytest.raises(KeyboardInterrupt):
        browser.post(page(row), {"post": "yes"})
    monkeypatch.undo()
    row.refresh_from_db()
    assert not (row.is_active if isinstance(row, User) else row.enabled)
    assert actions()[-1].endswith("deletion_begun")
    assert browser.post(page(row), {"post": "yes"}).status_code == 302
    assert not type(row).objects.filter(pk=row.pk).exists()


def test_x58_nothing_is_removed_without_the_right_to_delete(row: Any) -> None:
    """[X58] The parts ask for the same right as the row."""
    User.objects.create(username="eve", is_staff=True, is_owner=False)
    client = Client()
    client.force_login(User.objects.get(username="eve"))
    assert client.post(page(row), {"post": "yes"}).status_code == 403
    assert dependents_of(row).exists()
    assert not any("deletion_begun" in each for each in actions())


def test_x58_the_chosen_of_a_list_go_in_parts_too(browser: Client, row: Any) -> None:
    """[X58] By the list's action."""
    address = reverse(f"admin:core_{row._meta.model_name}_changelist")
    data = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    assert browser.post(address, data).status_code == 302
    assert not type(row).objects.filter(pk=row.pk).exists()
    assert [each.rpartition(".")[2] for each in actions()[-2:]] == ["deletion_begun", "deleted"]


@pytest.mark.parametrize("row", ["channelaccount"], indirect=True)
def test_x58_a_deletion_of_a_list_that_fails_is_not_recorded_as_one(
    browser: Client, row: Any
) -> None:
    """[X58] The row is there, and the audit says only that it was begun."""

    def failing(execute: Any, sql: str, *given: Any) -> Any:
        if sql.startswith(f'DELETE FROM "{row._meta.db_table}"'):
            raise DatabaseError("the disk is full")
        return execute(sql, *given)

    address = reverse(f"admin:core_{row._meta.model_name}_changelist")
    data = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    with connection.execute_wrapper(failing), pytest.raises(DatabaseError):
        browser.post(address, data)
    assert actions()[-1].rpartition(".")[2] == "deletion_begun"
