"""MCP servers in the admin: bad input, the key, the test, acceptance of what was seen."""

import logging
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from allowlist.models import AuditEntry
from channels_app.admin import tool_calls, tool_rules
from core.lib import encryption
from core.models import McpServer, McpTool, User
from tests.channels_app.admin.conftest import KEY, errors_of, messages_of, opened, page
from tests.core.tools.mcp.malicious_mcp import MaliciousMcp, running, tool

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hosts")]
GOOD = {
    "name": "Shed",
    "slug": "shed",
    "url": "https://api.example.com/mcp",
    "seconds": "60",
    "key": KEY,
}


@pytest.fixture
def server() -> Iterator[MaliciousMcp]:
    with running(MaliciousMcp()) as made:
        yield made


@pytest.fixture
def row(server: MaliciousMcp) -> McpServer:
    return McpServer.objects.create(name="Shed", slug="shed", url=server.url, allow_private=True)


def action(name: str, row: McpServer) -> str:
    return reverse(f"admin:core_mcpserver_{name}", args=[row.pk])


def post(browser: Client, name: str, row: McpServer, **fields: Any) -> Any:
    """Post one of the forms of a server's page; return the page that follows."""
    return browser.post(action(name, row), fields, follow=True)


def choices(browser: Client, row: McpServer) -> list[str]:
    """Return the values with which the page of changes accepts tools."""
    content = browser.get(action("changes", row)).content.decode()
    return re.findall(r'name="accept" value="([^"]+)"', content)


def shown_tools(browser: Client, row: McpServer) -> dict[str, str]:
    """Return the fields of the form of a server's tools, as a browser sends them."""
    content = browser.get(page(McpServer, row.pk)).content.decode()
    hidden = re.findall(r'type="hidden" name="(shown-[0-9]+)" value="([^"]+)"', content)
    on = re.findall(r'type="checkbox" name="(on-[0-9]+)" checked', content)
    asks = re.findall(r'name="(ask-[0-9]+)".*?value="([a-z]+)" selected', content, re.DOTALL)
    return {**dict(hidden), **dict.fromkeys(on, "on"), **dict(asks)}


def test_an_old_page_takes_back_nothing_that_it_does_not_change(browser: Client) -> None:
    """Nor is the secret of a client lost, whose id the page does not change."""
    secrets = encryption.encrypt({"client_secret": "hidden"})
    row = McpServer.objects.create(
        name="Shed", slug="shed", url=GOOD["url"], client_id="me", secrets=secrets
    )
    sent = opened(browser, row)
    people = [User.objects.create(username="ann")]
    row.people.set(people)
    McpServer.objects.filter(pk=row.pk).update(url="https://api.example.com/new", seconds=9)
    browser.post(page(McpServer, row.pk), {**sent, "name": "Hut", "enabled": ""})
    row.refresh_from_db()
    assert (row.name, row.enabled, row.seconds) == ("Hut", False, 9)
    assert (row.url, list(row.people.all())) == ("https://api.example.com/new", people)
    assert row.open_secrets() == {"client_secret": "hidden"}


def test_people_that_were_chosen_beside_an_error_are_stored_with_its_correction(
    browser: Client,
) -> None:
    """The page took them for those of the row, and so all people had the tools of the server."""
    row = McpServer.objects.create(name="Shed", slug="shed", url=GOOD["url"])
    ann = User.objects.create(username="ann")
    sent = {**opened(browser, row), "people": [str(ann.pk)]}
    answer = browser.post(page(McpServer, row.pk), {**sent, "url": "nowhere"})
    assert "url" in errors_of(answer)
    told = re.findall(r'name="initial-people" value="([^"]*)"', answer.content.decode())
    browser.post(page(McpServer, row.pk), {**sent, "initial-people": told})
    assert list(row.people.all()) == [ann]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "", "required"),
        ("slug", "", "required"),
        ("slug", "My_Shed", "Small letters"),
        ("slug", "-a", "Small letters"),
        ("slug", "x" * 25, "at most 24"),
        ("url", "", "required"),
        ("url", "api.example.com/mcp", "http"),
        ("url", "file:///etc/passwd", "http"),
        ("url", "https://ann:secret@api.example.com/mcp", "key"),
        ("url", "https://api.example.com/mcp?key=1", "?"),
        ("url", "http://192.168.1.20:8080/mcp", "inside"),
        ("url", "http://127.0.0.1:8080/mcp", "inside"),
        ("url", "http://169.254.169.254/mcp", "never"),
        ("key", f"{KEY}\nX-Evil: 1", "line breaks"),
        ("key", f"{KEY} and more", "spaces"),
        ("key", f"{KEY}é", "special"),
        ("key_header", "X-Key: a", "letters"),
        ("key_header", "Host", "connection"),
        ("key_header", "Mcp-Session-Id", "connection"),
        ("seconds", "0", "1 to 600"),
        ("seconds", "601", "1 to 600"),
        ("seconds", "soon", "whole number"),
    ],
)
def test_v50_bad_input_has_its_error_beside_its_field(
    browser: Client, caplog: pytest.LogCaptureFixture, field: str, value: str, words: str
) -> None:
    """[V50] Nothing is stored, and the key is in no page and no log."""
    with caplog.at_level(logging.DEBUG):
        answer = browser.post(page(McpServer), {**GOOD, field: value})
    errors = errors_of(answer)
    assert list(errors) == [field], errors
    assert words in errors[field]
    assert not McpServer.objects.exists()
    assert KEY not in answer.content.decode()
    assert KEY not in caplog.text


def test_v50_the_key_is_stored_encrypted_kept_replaced_and_removed(browser: Client) -> None:
    """[V50] An empty field keeps it; the page says only whether one is set."""
    browser.post(page(McpServer), GOOD)
    row = McpServer.objects.get()
    assert row.open_secrets() == {"key": KEY}
    assert KEY not in row.secrets
    content = browser.get(page(McpServer, row.pk)).content.decode()
    assert KEY not in content
    assert "Already set" in content
    fields = {name: value for name, value in GOOD.items() if name not in {"key", "slug"}}
    browser.post(page(McpServer, row.pk), {**fields, "name": "Attic"})
    row.refresh_from_db()
    assert (row.name, row.slug, row.open_secrets()) == ("Attic", "shed", {"key": KEY})
    browser.post(page(McpServer, row.pk), {**fields, "remove_key": "on"})
    row.refresh_from_db()
    assert row.secrets == ""
    actions = list(AuditEntry.objects.values_list("action", flat=True))
    assert {"mcpserver.added", "mcpserver.key_set", "mcpserver.key_removed"} <= set(actions)
    assert not any(KEY in str(each) for each in AuditEntry.objects.values_list("data", flat=True))


def test_v51_the_test_gives_its_findings_in_words(
    browser: Client, row: McpServer, server: MaliciousMcp
) -> None:
    """[V51] No tool is called."""
    answer = post(browser, "test", row)
    assert "answers (protocol 2026-07-28) and offers 2 tools. 2 wait" in messages_of(answer)
    assert not server.calls
    server.key = "wanted"
    answer = post(browser, "test", row)
    assert "does not accept the key" in messages_of(answer)
    row.refresh_from_db()
    assert row.check_result == "It does not accept the key."
    assert McpTool.objects.count() == 2


def test_v51_a_new_server_is_asked_for_its_tools_at_once(
    browser: Client, server: MaliciousMcp
) -> None:
    """[V51] The page of the saved server lists them; none is on."""
    fields = {**GOOD, "url": server.url, "allow_private": "on", "enabled": "on"}
    answer = browser.post(page(McpServer), fields, follow=True)
    assert "offers 2 tools" in messages_of(answer)
    assert "Look at 2 new or changed" in answer.content.decode()
    assert not McpTool.objects.filter(enabled=True).exists()


def test_v52_the_difference_is_shown_before_it_is_accepted(
    browser: Client, row: McpServer, server: MaliciousMcp
) -> None:
    """[V52] With what would be invisible; the page accepts exactly what it showed."""
    post(browser, "test", row)
    for each in choices(browser, row):
        post(browser, "accept", row, accept=each)
    assert McpTool.objects.filter(enabled=True).count() == 2
    assert choices(browser, row) == []
    server.tools[0] = tool("read", "Reads <b>all</b> files.")
    post(browser, "test", row)
    content = browser.get(action("changes", row)).content.decode()
    assert "<del>- Does it.</del>" in content
    assert "<ins>+ Reads &lt;b&gt;all&lt;/b&gt; files.</ins>" in content
    [choice] = choices(browser, row)
    server.tools[0] = tool("read", "Reads and sends.")
    post(browser, "test", row)
    answer = post(browser, "accept", row, accept=choice)
    assert "another one by now" in messages_of(answer)
    assert McpTool.objects.get(name="read").description == "Does it."
    [choice] = choices(browser, row)
    assert "read is on" in messages_of(post(browser, "accept", row, accept=choice))
    assert McpTool.objects.get(name="read").description == "Reads and sends."
    entry = AuditEntry.objects.filter(action="mcptool.accepted").latest("id")
    assert entry.data["hash"] == choice.partition(":")[2]


def test_v52_a_tool_of_another_server_cannot_be_accepted(
    browser: Client, row: McpServer, server: MaliciousMcp
) -> None:
    """[V52] Nor one that cannot be used, nor what is no choice."""
    other = McpServer.objects.create(name="Attic", slug="attic", url=server.url)
    post(browser, "test", row)
    found = choices(browser, row)
    post(browser, "accept", other, accept=found)
    post(browser, "accept", row, accept=["", "x:y", "1:", found[0].partition(":")[0]])
    assert not McpTool.objects.filter(enabled=True).exists()
    server.tools = [tool("read", "x" * 9_000)]
    post(browser, "test", row)
    assert choices(browser, row) == []
    assert "cannot be used" in browser.get(action("changes", row)).content.decode()


def test_v53_tools_are_switched_one_by_one_with_when_each_asks(
    browser: Client, row: McpServer
) -> None:
    """[V53] A value that is no choice changes nothing."""
    post(browser, "test", row)
    post(browser, "accept", row, accept=choices(browser, row))
    read, send = McpTool.objects.order_by("name")
    fields = shown_tools(browser, row)
    assert fields == {
        **{f"on-{each.pk}": "on" for each in (read, send)},
        **{f"ask-{each.pk}": "always" for each in (read, send)},
        **{f"shown-{each.pk}": "on always" for each in (read, send)},
    }
    del fields[f"on-{send.pk}"]
    answer = post(browser, "tools", row, **{**fields, f"ask-{read.pk}": "never"})
    assert "2 tools were changed" in messages_of(answer)
    state = {each.name: (each.enabled, each.ask) for each in McpTool.objects.all()}
    assert state == {"read": (True, "never"), "send": (False, "always")}
    fields = shown_tools(browser, row)
    post(browser, "tools", row, **{**fields, f"ask-{read.pk}": "whenever"})
    assert McpTool.objects.get(name="read").ask == "never"
    assert AuditEntry.objects.filter(action="mcptool.changed").count() == 2


def test_v53_a_page_of_before_changes_nothing_but_its_owners_choices(
    browser: Client, row: McpServer
) -> None:
    """[V53] Another owner has accepted a tool, or switched one off, since it was loaded."""
    post(browser, "test", row)
    read, send = choices(browser, row)
    post(browser, "accept", row, accept=read)
    before = shown_tools(browser, row)
    post(browser, "accept", row, accept=send)
    McpTool.objects.filter(name="read").update(enabled=False)
    assert "Nothing changed" in messages_of(post(browser, "tools", row, **before))
    state = {each.name: each.enabled for each in McpTool.objects.all()}
    assert state == {"read": False, "send": True}


def test_v54_texts_of_a_server_are_shown_as_text(
    browser: Client, row: McpServer, server: MaliciousMcp
) -> None:
    """[V54] Neither HTML nor what hides or reorders text."""
    evil = "<script>alert(1)</script>"
    server.tools = [tool(evil, f"{evil}\u202etxt", title=evil)]
    answer = post(browser, "test", row)
    overview = browser.get(reverse("admin:core_mcpserver_changelist"))
    pages = [answer, browser.get(action("changes", row)), overview]
    for each in pages:
        content = each.content.decode()
        assert evil not in content
        assert "\u202e" not in content
    assert evil in unescape(pages[1].content.decode())


@pytest.mark.parametrize("name", ["test", "tools", "accept", "changes"])
def test_v54_only_owners_test_and_accept(
    client: Client, row: McpServer, server: MaliciousMcp, name: str
) -> None:
    """[V54] Not staff with all permissions for these rows; a GET changes nothing."""
    staff = User.objects.create(username="staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(content_type__model__startswith="mcp"))
    client.force_login(staff)
    assert client.get(page(McpServer, row.pk)).status_code == 200
    send = client.get if name == "changes" else client.post
    assert send(action(name, row)).status_code == 403
    if name != "changes":
        assert client.get(action(name, row)).status_code == 405
    client.logout()
    assert client.post(action(name, row)).status_code in {302, 404}
    assert not server.methods


def test_v53_the_owners_rules_name_tools_of_servers_too(browser: Client, row: McpServer) -> None:
    """[V53] Those that are in use; a question shows what the tool says that it does."""
    name = "mcp_shed_send"
    assert name not in dict(tool_rules.tool_choices())
    post(browser, "test", row)
    post(browser, "accept", row, accept=choices(browser, row))
    assert dict(tool_rules.tool_choices())[name] == f"{name} (always)"
    assert tool_calls.description_of(name) == "Does it."


def test_v54_the_people_of_a_server_are_chosen_and_audited(browser: Client, owner: User) -> None:
    """[V54] By name."""
    browser.post(page(McpServer), {**GOOD, "people": [owner.pk]})
    row = McpServer.objects.get()
    assert [*row.people.all()] == [owner]
    assert AuditEntry.objects.get(action="mcpserver.people_set").data == {"people": [str(owner)]}
    fields = {name: value for name, value in GOOD.items() if name not in {"key", "slug"}}
    browser.post(page(McpServer, row.pk), fields)
    assert not row.people.exists()
    assert AuditEntry.objects.filter(action="mcpserver.people_set").count() == 2
