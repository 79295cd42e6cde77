"""Calls of tools in the admin: the list, the page of one, and its decisions (V60 to V64)."""

import json
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from allowlist.models import AuditEntry
from channels_app.tool_requests import deciding
from core.conversations import tool_calls
from core.conversations.tool_calls import Asked
from core.models import ChannelAccount, ChatSession, Run, RunPause, ToolCall, ToolGrant, User
from core.tools.current_time import CurrentTime
from tests.channels_app.admin.conftest import messages_of

pytestmark = pytest.mark.django_db
LIST = "/admin/core/toolcall/"
EVIL = "<script>alert('x')</script>\u202egnp"
ARGUMENTS = {"url": "https://example.org/a", "count": 3}
Ask = Callable[..., ToolCall]


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create(username="ann", display_name="Ann")


@pytest.fixture
def ask(ann: User, owner: User) -> Ask:
    """Return ``ask(arguments, tool=, of=, cost=)``: a paused run of Ann's with one call."""

    def make(
        arguments: Any = ARGUMENTS, *, tool: str = "web_fetch", of: User = owner, cost: str = ""
    ) -> ToolCall:
        account, _ = ChannelAccount.objects.get_or_create(channel="memory", name="mem")
        session, _ = ChatSession.objects.get_or_create(user=ann, account=account, chat="42")
        run = Run.objects.create(
            session=session, user=ann, origin="memory", state="succeeded", text="Read this."
        )
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        question = Asked("1", tool, text, cost, of_person=of == ann)
        [row] = tool_calls.pause(run=run, messages=[], asked=[(question, of.pk)])
        return row

    return make


def page_of(call: ToolCall) -> str:
    return reverse("admin:core_toolcall_decide", args=[call.pk])


def decide(browser: Client, call: ToolCall, choice: str = "once", **fields: str) -> Any:
    """Press a button of the page; return the page that follows."""
    form = {"digest": call.digest, "choice": choice, **fields}
    return browser.post(page_of(call), form, follow=True)


def state(call: ToolCall) -> tuple[str, str]:
    call.refresh_from_db()
    return call.state, call.scope


def test_v60_the_page_shows_the_call_and_five_ways_to_decide(browser: Client, ask: Ask) -> None:
    """Person, chat, tool with its description, readable arguments, cost; as the notice links it."""
    call = ask(tool="current_time", cost="about 2 cents")
    assert page_of(call) == f"{LIST}{call.pk}/decide/"
    html = browser.get(page_of(call)).content.decode()
    for words in ("Ann", "memory", "Read this.", "about 2 cents", "current_time"):
        assert words in html
    assert '{\n  "url": "https://example.org/a",\n  "count": 3\n}' in unescape(html)
    for label in ("Allow", "Allow here for 1 h", "Always for this person and tool", "Deny"):
        assert f">{label}</button>" in html
    assert ">Allow edited</button>" in html
    assert call.digest in html
    assert CurrentTime.description[:40] in unescape(html)
    change = browser.get(f"{LIST}{call.pk}/change/").content.decode()
    assert ">Allow</button>" in change


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("once", ("allowed", "once")),
        ("hour", ("allowed", "hour")),
        ("always", ("allowed", "always")),
        ("deny", ("denied", "")),
    ],
)
def test_v60_each_button_decides_once_and_the_run_goes_on(
    browser: Client, owner: User, ask: Ask, choice: str, expected: tuple[str, str]
) -> None:
    """The audit has who, and not the arguments; the second tab gets the first decision."""
    call = ask()
    answer = decide(browser, call, choice)
    assert messages_of(answer) == deciding.TEXTS[expected[0]]
    assert state(call) == expected
    assert call.decided_by == owner
    assert RunPause.objects.get(run=call.run).continued_by is not None
    assert ToolGrant.objects.count() == (choice in {"hour", "always"})
    [entry] = AuditEntry.objects.filter(action__startswith="tool.")
    assert entry.data["via"] == "admin"
    assert "example.org" not in json.dumps(entry.data)
    for again in ("once", "always", "deny"):
        assert messages_of(decide(browser, call, again)) == deciding.TEXTS["already"]
    assert state(call) == expected
    assert Run.objects.count() == 2
    assert ">Allow</button>" not in answer.content.decode()


def test_v60_edited_arguments_are_allowed_instead(browser: Client, ask: Ask) -> None:
    call = ask()
    decide(browser, call, "edited", arguments='{"url": "https://example.org/b"}')
    assert state(call) == ("allowed", "once")
    assert call.edited
    assert json.loads(call.arguments) == {"url": "https://example.org/b"}
    assert "arguments edited" in browser.get(page_of(call)).content.decode()


def test_v60_the_same_arguments_in_the_area_are_no_edit(browser: Client, ask: Ask) -> None:
    """The text area has the same JSON, also with hidden characters."""
    call = ask({"text": EVIL, "n": 1.5, "list": ["é", None]})
    html = browser.get(page_of(call))
    shown = html.context["dashboard"]["arguments"]
    assert "\u202e" not in shown
    decide(browser, call, "edited", arguments=shown.replace("\n", "\r\n"))
    assert state(call) == ("allowed", "once")
    assert not call.edited


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "no arguments"),
        ("[1]", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"url": ', "not valid JSON"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1, "a": 2}', "the same key twice"),
        ('{"a": "\\u0000"}', "not text"),
        ('{"a": "\\ud800"}', "not text"),
        ("{'a': 1}", "not valid JSON"),
        ("[" * 100_000, "longer than"),
        ('{"a":' * 100 + "1" + "}" * 100, "nested too deeply"),
        (json.dumps({"a": "x" * 1_000_000}), "longer than"),
    ],
)
def test_v61_arguments_that_are_no_json_object_are_refused_and_the_text_is_kept(
    browser: Client, ask: Ask, typed: str, words: str
) -> None:
    """The call waits on; the text area keeps the text."""
    call = ask()
    answer = decide(browser, call, "edited", arguments=typed)
    assert answer.status_code == 400
    html = answer.content.decode()
    assert words in html
    if 0 < len(typed) < 100:
        assert answer.context["dashboard"]["typed"] == typed
    assert state(call) == ("waiting", "")


def test_v61_a_replayed_or_forged_post_decides_nothing(browser: Client, ask: Ask) -> None:
    """Bound to what was shown: another digest, none, that of another call, no choice, a GET."""
    call, other = ask(), ask({"url": "https://evil.example"})
    for digest in ("", "0" * 64, other.digest, call.digest[:8]):
        answer = decide(browser, call, digest=digest)
        assert messages_of(answer) == deciding.TEXTS["changed"]
    for choice in ("", "edit", "promote"):
        assert decide(browser, call, choice).status_code == 400
    assert browser.get(page_of(call), {"choice": "once", "digest": call.digest}).status_code == 200
    assert browser.put(page_of(call)).status_code == 405
    assert browser.post(f"{LIST}999999/decide/", {"choice": "once"}).status_code == 404
    assert browser.get(f"{LIST}{10**30}/decide/").status_code == 404
    assert browser.get(f"{LIST}{call.public_id}/decide/").status_code in {302, 404}
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="owner"))
    assert decide(strict, call).status_code == 403
    assert state(call) == ("waiting", "")


def test_v61_an_old_page_does_not_allow_a_changed_call(browser: Client, ask: Ask) -> None:
    call = ask()
    shown = call.digest
    changed = json.dumps({"url": "https://evil.example"})
    ToolCall.objects.filter(pk=call.pk).update(
        arguments=changed, digest=tool_calls.digest_of(call.tool, changed)
    )
    assert messages_of(decide(browser, call, digest=shown)) == deciding.TEXTS["changed"]
    assert state(call) == ("waiting", "")


@pytest.mark.parametrize("permission", ["view_toolcall", "change_toolcall", "delete_toolcall"])
def test_v62_staff_without_the_owner_role_decide_nothing(
    client: Client, ask: Ask, permission: str
) -> None:
    """By no permission; the attempt is recorded where the call may be seen."""
    sam = User.objects.create(username="sam", is_staff=True)
    sam.user_permissions.set(Permission.objects.filter(codename=permission))
    client.force_login(User.objects.get(pk=sam.pk))
    call = ask()
    may_view = permission != "delete_toolcall"
    for choice in ("once", "hour", "always", "edited", "deny"):
        assert decide(client, call, choice, arguments="{}").status_code == 403
    assert client.get(page_of(call)).status_code == (200 if may_view else 403)
    if may_view:
        html = client.get(page_of(call)).content.decode()
        assert 'name="choice"' not in html
        assert "The owner decides about this call." in html
    assert state(call) == ("waiting", "")
    assert AuditEntry.objects.filter(action="tool.refused").count() == 5 * may_view
    assert client.post(f"{LIST}{call.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.get(f"{LIST}add/").status_code == 403


def test_v62_a_superuser_without_the_owner_role_decides_nothing(client: Client, ask: Ask) -> None:
    boss = User.objects.create(username="boss", is_staff=True, is_superuser=True)
    client.force_login(boss)
    call = ask()
    assert decide(client, call).status_code == 403
    assert state(call) == ("waiting", "")


def test_v62_a_guest_has_no_page(client: Client, ann: User, ask: Ask) -> None:
    """Also not the person who asked, nor without a session."""
    call = ask()
    assert client.get(page_of(call)).status_code == 404
    client.force_login(ann)
    assert client.get(page_of(call)).status_code == 404
    assert decide(client, call).status_code == 404
    assert state(call) == ("waiting", "")


def test_v62_another_owner_than_the_one_asked_decides_too(client: Client, ask: Ask) -> None:
    """An owner needs no permission on the table besides."""
    call = ask()
    eva = User.objects.create(username="eva", is_staff=True, is_owner=True)
    client.force_login(eva)
    assert ">Allow</button>" in client.get(page_of(call)).content.decode()
    decide(client, call)
    assert state(call) == ("allowed", "once")
    assert call.decided_by == eva


def test_v62_a_yes_of_the_persons_own_is_not_the_owners(
    browser: Client, ann: User, ask: Ask
) -> None:
    call = ask(of=ann)
    html = browser.get(page_of(call)).content.decode()
    assert "Ann decides about this call" in html
    assert 'name="choice"' not in html
    assert messages_of(decide(browser, call)) == deciding.TEXTS["not_yours"]
    assert state(call) == ("waiting", "")


def test_v63_an_expired_call_and_one_of_a_revoked_person_are_not_allowed(
    browser: Client, ann: User, ask: Ask
) -> None:
    late, gone = ask(), ask()
    ToolCall.objects.filter(pk=late.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "The time to decide has passed." in browser.get(page_of(late)).content.decode()
    assert messages_of(decide(browser, late)) == deciding.TEXTS["expired"]
    assert not ToolCall.objects.filter(state="allowed").exists()
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert messages_of(decide(browser, gone)) == deciding.TEXTS["gone"]
    assert state(gone)[0] != "allowed"
    assert RunPause.objects.get(run=gone.run).continued_by is None


def test_v63_two_tabs_at_once_decide_once(browser: Client, ask: Ask) -> None:
    """A second owner's page that was opened before the decision."""
    call = ask()
    before = browser.get(page_of(call)).content.decode()
    assert call.digest in before
    assert messages_of(decide(browser, call, "deny")) == deciding.TEXTS["denied"]
    assert messages_of(decide(browser, call, "always")) == deciding.TEXTS["already"]
    assert state(call) == ("denied", "")
    assert not ToolGrant.objects.exists()


def test_v64_foreign_texts_are_never_markup(browser: Client, ann: User, ask: Ask) -> None:
    """In tool, arguments (names and values, and such as are no JSON), person, chat, cost."""
    User.objects.filter(pk=ann.pk).update(display_name=EVIL)
    calls = [ask({EVIL: EVIL}, tool=EVIL, cost=EVIL), ask(f"{EVIL} no JSON", tool="x" * 128)]
    ChatSession.objects.update(title=EVIL, chat=EVIL)
    Run.objects.update(text=EVIL)
    for address in (LIST, *(page_of(each) for each in calls), "/admin/"):
        html = browser.get(address).content.decode()
        assert "<script>alert" not in html
        assert "\u202e" not in html
    for each in calls:
        answer = browser.get(reverse("admin:core_toolcall_arguments", args=[each.pk]))
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "\u202e" not in answer.content.decode()


def test_v64_a_megabyte_of_arguments_is_cut_and_can_be_read_whole(
    browser: Client, ask: Ask
) -> None:
    """The page says that it is not all, and offers no edit of a part."""
    call = ask({"text": "x" * 1_000_000 + "THE END"})
    html = browser.get(page_of(call)).content.decode()
    assert len(html) < 200_000
    assert "Only the beginning is shown." in html
    assert "Allow edited" not in html
    whole = browser.get(reverse("admin:core_toolcall_arguments", args=[call.pk])).content
    assert b"THE END" in whole
    for text in ("[" * 200_000, "{" * 1_000_000):
        assert browser.get(page_of(ask(text))).status_code == 200
    sam = User.objects.create(username="sam", is_staff=True)
    other = Client()
    other.force_login(sam)
    assert other.get(reverse("admin:core_toolcall_arguments", args=[call.pk])).status_code == 403


def test_v60_the_list_filters_and_costs_the_same_for_many(browser: Client, ask: Ask) -> None:
    """State, tool, who, where, when; and the number of those that wait on each page."""
    first = ask()
    decide(browser, ask(), "deny")
    waiting = browser.get(f"{LIST}?state__exact=waiting")
    assert [each.pk for each in waiting.context["cl"].result_list] == [first.pk]
    assert page_of(first) in waiting.content.decode()
    for query in ("web_fetch", "ann", first.public_id):
        assert first in browser.get(LIST, {"q": query}).context["cl"].result_list
    assert browser.get("/admin/").context["waiting_calls"] == 1
    with CaptureQueriesContext(connection) as few:
        browser.get(LIST)
    for _ in range(5):
        ask()
    ask(of=first.run.user)  # waits for Ann, not for an owner
    with CaptureQueriesContext(connection) as many:
        answer = browser.get(LIST)
    assert len(many) == len(few)
    counting = [each for each in many if "COUNT" in each["sql"] and "waiting" in each["sql"]]
    assert len(counting) == 1
    assert answer.context["waiting_calls"] == 6
    assert 'aria-label="Waiting calls of tools: 6"' in answer.content.decode()
