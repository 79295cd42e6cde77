"""The admin: access, and the content and actions of each page ([RQ17] [RQ18] [RQ19])."""

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from axes.models import AccessAttempt
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from allowlist import audit, keys, link_codes, unknown_requests
from allowlist.models import ApiKey, AuditEntry, BlockPattern, SignInLink, UnknownRequest
from channels_app.intake.inbound import receive_sender
from channels_app.models import SourceFeedback
from core.conversations import budgets, outbox, tool_calls
from core.conversations.inbox import Draft
from core.conversations.tool_calls import Asked
from core.lib import encryption
from core.models import (
    Assistant,
    AssistantModel,
    AssistantVersion,
    Backup,
    BackupSchedule,
    Budget,
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Job,
    LanguageModel,
    McpServer,
    McpTool,
    Message,
    ModelCall,
    ModelProvider,
    Occurrence,
    RetentionRule,
    Run,
    RunEvent,
    RunFailure,
    Schedule,
    SearchProvider,
    Skill,
    StoredFile,
    ToolGrant,
    ToolRule,
    User,
)
from core.providers import catalogue
from tests.allowlist.conftest import MakeUser, identities
from tests.allowlist.in_parallel import run_in_parallel
from tests.channels_app.admin.conftest import shown_fields

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
EVIL = "<script>alert('x')</script>\u202eevil"
REQUESTS = "/admin/allowlist/unknownrequest/"


@pytest.fixture(autouse=True)
def fresh_cache() -> Iterator[None]:
    """Empty the cache: the chart of the dashboard is kept for a minute."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def owner_client(client: Client, owner: User) -> Client:
    """Return a browser where the owner is signed in."""
    client.force_login(owner)
    return client


@pytest.fixture
def staff(make_user: MakeUser) -> User:
    """Return a member of staff who may view and change users and keys, but not decide."""
    user = make_user("sam")
    names = ["view_user", "change_user", "delete_user", "add_user", "view_unknownrequest"]
    names += ["view_apikey", "add_apikey", "delete_apikey", "view_channelidentity"]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    user.is_staff = True
    user.save()
    return user


@pytest.fixture
def request_row(telegram: ChannelAccount) -> UnknownRequest:
    """Return an unknown request with a held message full of tricks."""
    now = timezone.now()
    message = InboundMessage.objects.create(
        account=telegram, sender="41", chat="41", text=EVIL, state="held", received_at=now
    )
    return unknown_requests.record(
        unknown_requests.DeniedMessage(
            account=telegram,
            kind="im",
            sender="41",
            sender_name="<b>Eve</b>",
            chat="41",
            text=EVIL,
            message=message,
        ),
        now=now,
    )


@pytest.fixture
def conversation(telegram: ChannelAccount, make_user: MakeUser) -> Run:
    """Create one row in every table that the admin shows."""
    ann = make_user("ann", im=["42"])
    session = ChatSession.objects.create(
        user=ann, account=telegram, chat="42", title="Bees", last_message_at=timezone.now()
    )
    run = Run.objects.create(
        session=session, user=ann, origin="telegram", text=EVIL, state="queued"
    )
    RunEvent.objects.create(run=run, seq=1, data='{"type": "text", "props": {"content": "hey"}}')
    RunEvent.objects.create(run=run, seq=2, data="not json")
    Job.objects.create(run=run, tool_call_id="1", tool="summarize", message=EVIL, state="running")
    schedule = Schedule.objects.create(
        user=ann, kind="text", text=EVIL, start="2026-11-25T08:00:00", time_zone="UTC"
    )
    due = {"nominal_at": timezone.now(), "look_at": timezone.now()}
    Occurrence.objects.create(schedule=schedule, note=EVIL, **due)
    for role in ("user", "assistant"):
        Message.objects.create(session=session, run=run, role=role, text=f"{role} says {EVIL}")
    for index, state in enumerate(("dead", "uncertain", "sent")):
        Delivery.objects.create(
            account=telegram,
            session=session,
            run=run,
            block_index=index,
            dedupe_key=f"run:{run.pk}:{index}",
            conversation="1:42:",
            payload={"text": EVIL},
            state=state,
            error=EVIL,
        )
    InboundMessage.objects.create(
        account=telegram,
        sender="42",
        sender_name=EVIL,
        text=EVIL,
        run=run,
        received_at=timezone.now(),
    )
    tools_of(run)
    Skill.objects.create(name="count-words")
    StoredFile.objects.create(
        user=ann, name=EVIL, content_type="text/html", size=3, sha256="0" * 64, path="ab/cd"
    )
    keys.create(name="laptop", user=ann, scopes=["chat"])
    SourceFeedback.objects.create(
        run=run, user=ann, message_id="m", source_id="s", verdict="up", title=EVIL, url=EVIL
    )
    BlockPattern.objects.create(kind="email", pattern=f"*{EVIL}", note=EVIL)
    AccessAttempt.objects.create(username=EVIL, ip_address="192.0.2.1", failures_since_start=3)
    catalogue.write_environment()
    markup = "<script>alert('x')</script>"  # the owner's own: an input shows it as it is
    provider = ModelProvider.objects.create(
        name=markup, kind="openai", offered_models=[EVIL], check_result=EVIL
    )
    model = LanguageModel.objects.create(provider=provider, name=markup, label=markup)
    assistant = Assistant.objects.create(name=markup, slug="evil", instructions=markup)
    AssistantVersion.objects.create(assistant=assistant, number=1, instructions=EVIL)
    AssistantModel.objects.create(assistant=assistant, model=model)
    SearchProvider.objects.create(name=markup, base_url=markup, check_result=EVIL)
    server = McpServer.objects.create(name=markup, slug="evil", url=markup, check_result=EVIL)
    McpTool.objects.create(
        server=server, name=EVIL, call_name="mcp_evil_x", offered={"title": EVIL}
    )
    Budget.objects.create(limit=10**9, assistant=assistant)
    ModelCall.objects.create(user=ann, run=run, model_name=EVIL, day=timezone.localdate())
    return run


@pytest.fixture
def run(telegram: ChannelAccount, make_user: MakeUser) -> Run:
    """Return a run, and nothing else."""
    ann = make_user("ann", im=["42"])
    session = ChatSession.objects.create(user=ann, account=telegram, chat="42")
    return Run.objects.create(session=session, user=ann, origin="telegram", state="running")


def tools_of(run: Run) -> None:
    """Create a waiting call, an allowed tool and a rule, of a tool from elsewhere."""
    asked = [(Asked("1", EVIL, json.dumps({"<b>Eve": EVIL}), cost=EVIL), None)]
    tool_calls.pause(run=run, messages=[], asked=asked)
    ToolGrant.objects.create(tool=EVIL, user=run.user)
    ToolRule.objects.create(tool=EVIL.partition("\u202e")[0], ask="always", user=run.user)
    RetentionRule.objects.create(kind="messages", days=30, user=run.user)
    Backup.objects.create(cause="admin", asked_at=timezone.now(), state="failed", error="Full.")


def page(browser: Client, address: str) -> str:
    """Return the HTML of a page; it must exist."""
    answer = browser.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def decide(browser: Client, row: UnknownRequest, verdict: str, **more: str) -> str:
    """Press a button of the list; return the text of the page that follows."""
    address = reverse("admin:allowlist_unknownrequest_decide", args=[row.public_id])
    answer = browser.post(address, {"verdict": verdict, **more}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def lists() -> list[str]:
    """Return the address of the list of every registered table."""
    return [
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for model in admin.site._registry
    ]


# Access.


def test_rq17_the_admin_is_404_except_for_staff(
    client: Client, make_user: MakeUser, owner: User
) -> None:
    """[RQ17] 404 for anonymous users and members on every address, Django's sign-in included."""
    addresses = ["/admin/", "/admin/login/", "/admin/logout/", "/admin/nothing/", *lists()]
    for user in (None, make_user("guest"), make_user("gone", active=False)):
        if user is not None:
            client.force_login(user)
        for address in addresses:
            assert client.get(address).status_code == 404, (user, address)
            assert client.post(address).status_code in {403, 404}
    client.force_login(owner)
    assert client.get("/admin/").status_code == 200
    assert client.get("/admin/login/").headers["Location"] == "/admin/"


def test_a_link_to_the_admin_leads_there_over_the_sign_in(client: Client, owner: User) -> None:
    """Notices have such links, and the session of the phone's browser may have ended. A page that
    is none looks the same.
    """
    page, asks = "/admin/core/mcpserver/7/change/?a=1&b=2", {"Accept": "text/html"}
    for address in (page, "/nothing?a=1&b=2"):
        shown = client.get(address, headers=asks).content.decode()
        assert f'href="/sign-in?next={quote(address)}"' in shown
    client.force_login(owner)
    assert 'href="/sign-in' not in client.get("/nothing", headers=asks).content.decode()


def test_rq17_a_post_without_its_token_is_refused(owner: User, request_row: UnknownRequest) -> None:
    """RQ17: a page of another site cannot press our buttons."""
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner)
    address = reverse("admin:allowlist_unknownrequest_decide", args=[request_row.public_id])
    assert browser.post(address, {"verdict": "approve"}).status_code == 403
    assert browser.post(reverse("admin:core_user_sign_in_link", args=[owner.pk])).status_code == 403
    request_row.refresh_from_db()
    assert request_row.state == "pending"


def test_rq17_pages_may_not_be_framed_and_run_no_inline_script(owner_client: Client) -> None:
    """RQ17: the policy of the owner_client, on a page and on an answer to an action."""
    for answer in (owner_client.get("/admin/"), owner_client.get("/admin/core/user/")):
        policy = answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "script-src 'self' 'unsafe-eval';" in policy
        assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>\s*\S", answer.content.decode())
        assert not re.search(r"\son\w+=", answer.content.decode())


def test_signing_out_of_the_admin_is_a_post_and_redirects_to_sign_in(owner_client: Client) -> None:
    """Afterwards the admin is 404."""
    assert owner_client.get("/admin/logout/").status_code == 405
    assert owner_client.post("/admin/logout/").headers["Location"] == "/sign-in"
    assert owner_client.get("/admin/").status_code == 404


# Every page.


def test_every_list_has_search_and_filters_and_every_row_a_page(
    owner_client: Client, conversation: Run, request_row: UnknownRequest
) -> None:
    """And none shows an unknown sender's text unescaped or with hidden characters (RQ18, RX7)."""
    for model, model_admin in admin.site._registry.items():
        if model is BackupSchedule:  # one row, without a list
            continue
        assert model_admin.search_fields, model
        assert model_admin.list_filter, model
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        html = page(owner_client, reverse(f"admin:{name}_changelist"))
        html += page(owner_client, reverse(f"admin:{name}_changelist") + "?q=zebra")
        row = model._default_manager.order_by("-pk").first()
        assert row is not None, model
        html += page(owner_client, reverse(f"admin:{name}_change", args=[row.pk]))
        assert "<script>alert" not in html, model
        assert "<b>Eve" not in html, model
        assert "\u202e" not in html, model


@pytest.mark.parametrize("address", [REQUESTS, "/admin/", "/admin/core/chatsession/"])
def test_lists_take_a_fixed_number_of_queries(
    owner_client: Client, telegram: ChannelAccount, owner: User, address: str
) -> None:
    """However many rows there are."""

    def add(number: int) -> None:
        for each in range(number):
            sender = f"{number}{each}"
            unknown_requests.record(
                unknown_requests.DeniedMessage(account=telegram, kind="im", sender=sender),
                now=timezone.now(),
            )
            ChatSession.objects.create(user=owner, account=telegram, chat=sender)

    def cost() -> int:
        cache.clear()
        with CaptureQueriesContext(connection) as queries:
            page(owner_client, address)
        return len(queries)

    add(2)
    cost()  # a process caches content types and the doctor's findings at its first page
    few = cost()
    add(9)
    assert cost() == few


def test_the_dashboard_shows_requests_runs_failures_and_a_chart(
    owner_client: Client, conversation: Run, request_row: UnknownRequest
) -> None:
    """Issue 6, item 8; and the badges of the sidebar."""
    html = page(owner_client, "/admin/")
    assert "&lt;b&gt;Eve&lt;/b&gt;" in html
    assert html.count('value="approve"') == 1
    assert reverse("admin:core_run_change", args=[conversation.pk]) in html
    assert "summarize" in html
    assert html.count("admin/core/delivery/") >= 3
    assert "No runs worker has reported" in html
    chart = re.search(r'data-value="([^"]+)"', html)
    assert chart is not None
    assert "from people" in chart[1]


def test_the_dashboard_says_how_the_last_week_was(owner_client: Client, run: Run) -> None:
    """Failed answers, tokens and their cost; a price that is not known is not $0.00."""

    def shown() -> str:
        cache.clear()
        return page(owner_client, "/admin/")

    html = shown()
    assert "No answer failed." in html
    assert "No model was called." in html
    today = budgets.day_of(timezone.now())
    call = ModelCall.objects.create(model_name="m", day=today, prompt_tokens=1200)
    ModelCall.objects.create(model_name="m", day=today - timedelta(days=7), prompt_tokens=9)
    RunFailure.objects.create(run=run, code="timeout")
    html = shown()
    assert ">1,200 tokens<" in html
    assert f"?first={today - timedelta(days=6)}&amp;last={today}" in html
    link = re.search(r'href="([^"]+=failed[^"]+)">Failed answers</a><span [^>]*>1<', html)
    assert link is not None
    Run.objects.filter(pk=run.pk).update(state="failed")
    assert run.public_id in page(owner_client, unescape(link[1]))
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(days=8))
    assert run.public_id not in page(owner_client, unescape(link[1]))
    ModelCall.objects.filter(pk=call.pk).update(cost=2_500_000_000)
    RunFailure.objects.update(at=timezone.now() - timedelta(days=8))
    html = shown()
    assert "$2.50 for 1,200 tokens" in html
    assert "No answer failed." in html


def test_the_dashboard_names_the_calls_of_tools_that_wait(owner_client: Client, run: Run) -> None:
    assert "Allow or deny" not in page(owner_client, "/admin/")
    tools_of(run)
    assert 'state__exact=waiting">Allow or deny</a>' in page(owner_client, "/admin/")


def test_the_dashboard_of_limited_staff_shows_permitted_data_only(
    client: Client, staff: User, conversation: Run, request_row: UnknownRequest
) -> None:
    """Requests to read, no buttons, no runs, no deliveries."""
    client.force_login(staff)
    html = page(client, "/admin/")
    assert "&lt;b&gt;Eve&lt;/b&gt;" in html
    assert 'value="approve"' not in html
    assert "Running now" not in html
    assert "Failed deliveries" not in html
    assert "The last 7 days" not in html
    assert client.get("/admin/core/run/").status_code == 403


def test_the_list_of_people_says_until_when_a_guest_may_speak(
    owner_client: Client, make_user: MakeUser
) -> None:
    """One with another identity that does not end is no guest."""
    end = timezone.make_aware(datetime(2030, 5, 17, 8, 15))  # noqa: DTZ001 - made aware
    guest, friend = make_user("guest", im=["41"]), make_user("friend", im=["42"])
    ChannelIdentity.objects.update(expires_at=end)
    ChannelIdentity.objects.create(user=guest, kind="im", value="51", expires_at=end - HOUR)
    ChannelIdentity.objects.create(user=friend, kind="im", value="52")
    html = page(owner_client, "/admin/core/user/")
    shown = re.findall(r'<td class="field-speaks_from[^>]*>\s*([^<]*?)\s*<', html)
    assert sorted(shown) == ["0", "2", "2, until May 17, 2030, 8:15 a.m."]


@pytest.mark.parametrize("name", ["True", "False", "Unknown"])
def test_a_filter_by_a_name_that_a_tick_has_stays_a_link(owner_client: Client, name: str) -> None:
    for each in ("Shed", name):
        ModelProvider.objects.create(name=each, base_url="https://api.example.com/v1")
    html = page(owner_client, "/admin/core/languagemodel/")
    assert re.search(rf'<a href="[^"]*" title="{name}" class=', html)


def test_people_without_a_message_come_last_on_each_database(
    owner_client: Client, make_user: MakeUser
) -> None:
    make_user("anna")
    spoke = make_user("zoe")
    User.objects.filter(pk=spoke.pk).update(last_spoke_at=timezone.now())
    shown = re.findall(r'user/(\d+)/change/"', page(owner_client, "/admin/core/user/"))
    assert shown[0] == str(spoke.pk)


def test_staff_see_no_button_whose_press_would_be_refused(
    client: Client, owner: User, staff: User, request_row: UnknownRequest
) -> None:
    """The list of unknown requests, and the page of an account."""
    staff.user_permissions.add(Permission.objects.get(codename="view_channelaccount"))
    account = reverse("admin:core_channelaccount_change", args=[request_row.account_id])
    client.force_login(staff)
    assert 'value="approve"' not in page(client, REQUESTS)
    shown = page(client, account)
    assert "Test the connection" not in shown
    assert "Secrets that are set" in shown
    assert "Bot token" not in shown  # it looked as if none was set
    client.force_login(owner)
    assert 'value="approve"' in page(client, REQUESTS)
    assert "Test the connection" in page(client, account)
    decide(client, request_row, "deny")
    client.force_login(staff)
    assert "Denied by" in page(client, REQUESTS)


def test_a1_an_open_person_is_a_banner_on_every_page_and_a_badge(
    owner_client: Client, make_user: MakeUser
) -> None:
    """[A1] Red, and removed once the list has an identity."""
    bob = make_user("bob", only_listed=False, email=["b@example.com"], phone=["+4917612345678"])
    assert "Open to everyone:" in page(owner_client, "/admin/")
    assert "Open to everyone:" in page(owner_client, "/admin/core/run/")
    assert "open to everyone on im<" in page(owner_client, "/admin/core/user/?open=yes")
    assert "open to everyone on im<" in page(owner_client, f"/admin/core/user/{bob.pk}/change/")
    ChannelIdentity.objects.create(user=bob, kind="im", value="42")
    assert "Open to everyone:" not in page(owner_client, "/admin/core/user/")
    assert "open to everyone on" not in page(owner_client, "/admin/core/user/")


@pytest.mark.django_db(transaction=True)
def test_pages_that_write_and_other_writers_do_not_wait_for_each_other(
    owner: User, make_user: MakeUser
) -> None:
    """On SQLite a page takes the write lock before its transaction, as all writers do."""
    ann = make_user("ann")

    def either(number: int) -> int:
        if number % 2:
            for _ in range(40):
                audit.record(actor=str(number), action="x", now=timezone.now())
            return 302
        browser = Client()
        browser.force_login(owner)
        form = {"username": "ann", "display_name": f"Ann {number}", "only_listed": "on"}
        address = f"/admin/core/user/{ann.pk}/change/"
        return browser.post(address, form | {"is_active": "on"} | identities()).status_code

    started = time.monotonic()
    assert set(run_in_parallel(either, times=25, threads=5)) == {302}
    assert time.monotonic() - started < 60
    assert audit.check().broken is None
    assert AuditEntry.objects.filter(action="user.changed").count() == 13


# Unknown requests.


def test_a6_approve_in_the_list_allows_the_sender_and_runs_held_messages(
    owner_client: Client, owner: User, request_row: UnknownRequest
) -> None:
    """[A6][A7] The row shows the text, escaped; one press; the second gets the first decision."""
    html = page(owner_client, REQUESTS)
    assert "&lt;script&gt;alert" in html
    assert "im:41" in html
    html = decide(owner_client, request_row, "approve")
    assert "Approved by owner" in html
    assert "Messages that run now: 1" in html
    run = Run.objects.get()
    assert run.text == EVIL
    assert run.user == UnknownRequest.objects.get().granted_user
    assert AuditEntry.objects.filter(action="request.approve").count() == 1
    assert "Already approved by owner" in decide(owner_client, request_row, "deny")
    assert Run.objects.count() == 1
    assert 'value="approve"' not in page(owner_client, REQUESTS).split("result_list")[1]


def test_a6_approve_on_the_page_of_a_request_as_an_existing_user(
    owner_client: Client, make_user: MakeUser, request_row: UnknownRequest
) -> None:
    """[A6] The held text is shown, marked as untrusted; the user is named by username."""
    ann = make_user("ann")
    html = page(owner_client, f"{REQUESTS}{request_row.pk}/change/")
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;⟨U+202E⟩evil" in html
    assert "Held messages" in html
    assert "no active user" in decide(owner_client, request_row, "approve", person="nobody")
    assert not ChannelIdentity.objects.exists()
    decide(owner_client, request_row, "approve_24h", person="ann")
    identity = ChannelIdentity.objects.get()
    assert identity.user == ann
    assert identity.expires_at is not None
    assert identity.expires_at - timezone.now() < timedelta(hours=24)
    assert "Access until" in page(owner_client, f"{REQUESTS}{request_row.pk}/change/")


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        ("approve", "approved"),
        ("approve_24h", "approved"),
        ("deny", "denied"),
        ("block", "blocked"),
    ],
)
def test_a6_the_four_actions_of_the_list(
    owner_client: Client, request_row: UnknownRequest, verdict: str, state: str
) -> None:
    """[A6] For the chosen rows."""
    data = {"action": verdict, "_selected_action": [str(request_row.pk)]}
    assert owner_client.post(REQUESTS, data).status_code == 302
    request_row.refresh_from_db()
    assert request_row.state == state
    assert request_row.decided_via == "admin"


def test_a6_a_sender_blocked_by_mistake_may_ask_again(
    owner_client: Client, request_row: UnknownRequest
) -> None:
    """[A6] Block is beside Deny, and nothing took it back. Only what is blocked is unblocked."""
    row = request_row
    again = unknown_requests.DeniedMessage(account=row.account, kind=row.kind, sender=row.sender)
    chosen = {"_selected_action": [str(row.pk)]}
    for action, state in (("block", "blocked"), ("unblock", "pending"), ("unblock", "pending")):
        answer = owner_client.post(REQUESTS, {"action": action, **chosen}, follow=True)
        assert unknown_requests.record(again, now=timezone.now()).state == state
    assert "0 senders unblocked" in answer.content.decode()
    assert AuditEntry.objects.filter(action="request.unblock").count() == 1


def test_a6_unblocking_names_the_pattern_that_still_blocks(
    owner_client: Client, request_row: UnknownRequest
) -> None:
    """[A6] It was said that the owner is asked with the next message, and nothing came."""
    BlockPattern.objects.create(pattern=f"{request_row.sender[:2]}*")
    UnknownRequest.objects.update(state="blocked")
    data = {"action": "unblock", "_selected_action": [str(request_row.pk)]}
    html = owner_client.post(REQUESTS, data, follow=True).content.decode()
    assert f"1 sender still blocked by a pattern: {request_row.sender[:2]}*" in html
    assert "you are asked" not in html


def test_a6_a_decision_is_a_post_with_a_verdict(
    owner_client: Client, request_row: UnknownRequest
) -> None:
    """[A6] A link, an image or a prefetch decides nothing."""
    address = reverse("admin:allowlist_unknownrequest_decide", args=[request_row.public_id])
    assert owner_client.get(address, {"verdict": "approve"}).status_code == 400
    assert owner_client.post(address, {"verdict": "promote"}).status_code == 400
    assert owner_client.post(address).status_code == 400
    forged = reverse("admin:allowlist_unknownrequest_decide", args=["x" * 22])
    assert (
        b"does not exist" in owner_client.post(forged, {"verdict": "approve"}, follow=True).content
    )
    request_row.refresh_from_db()
    assert request_row.state == "pending"
    assert AuditEntry.objects.get().action == "request.refused"


def test_a6_staff_without_the_owner_role_cannot_decide(
    client: Client, staff: User, request_row: UnknownRequest
) -> None:
    """[A6] By the button, by the action; the attempt is recorded."""
    client.force_login(staff)
    address = reverse("admin:allowlist_unknownrequest_decide", args=[request_row.public_id])
    assert client.post(address, {"verdict": "approve"}).status_code == 403
    client.post(REQUESTS, {"action": "approve", "_selected_action": [str(request_row.pk)]})
    assert 'value="approve"' not in page(client, f"{REQUESTS}{request_row.pk}/change/")
    request_row.refresh_from_db()
    assert request_row.state == "pending"
    assert AuditEntry.objects.get().action == "request.refused"


def test_a6_a_sender_that_can_never_be_listed_is_said_so(
    owner_client: Client, telegram: ChannelAccount
) -> None:
    """[A2] The page says why; nothing changes."""
    row = unknown_requests.record(
        unknown_requests.DeniedMessage(account=telegram, kind="im", sender="@eve"),
        now=timezone.now(),
    )
    assert "numeric id" in decide(owner_client, row, "approve")
    assert UnknownRequest.objects.get().state == "pending"


def test_requests_are_found_by_name_text_and_state(
    owner_client: Client, telegram: ChannelAccount, request_row: UnknownRequest
) -> None:
    """Flood-proof: a legitimate request is still found."""
    for number in range(30):
        unknown_requests.record(
            unknown_requests.DeniedMessage(
                account=telegram, kind="im", sender=f"7{number}", text="spam"
            ),
            now=timezone.now(),
        )
    for query in ("?q=Eve", "?q=alert", "?q=41&state__exact=pending"):
        assert "im:41" in page(owner_client, REQUESTS + query)
    assert "im:41" not in page(owner_client, REQUESTS + "?state__exact=blocked")


# People.


def test_a2_identities_are_normalised_and_refused_in_the_form(
    owner_client: Client, make_user: MakeUser, telegram: ChannelAccount
) -> None:
    """[A2] RQ6: an odd Telegram id is refused with a reason; an address is written in one form."""
    ann = make_user("ann")
    address = f"/admin/core/user/{ann.pk}/change/"
    person = {"username": "ann", "only_listed": "on", "is_active": "on"}
    for odd in ("0012", "1_2", "１２", "12.0", "@ann"):
        row = {"kind": "im", "account": str(telegram.pk), "value": odd}
        answer = owner_client.post(address, person | identities(row))
        assert "numeric id, digits only" in answer.content.decode()
    assert not ChannelIdentity.objects.exists()
    rows = [
        {"kind": "im", "account": str(telegram.pk), "value": " 42 "},
        {"kind": "email", "value": "Ann@Example.COM"},
    ]
    assert owner_client.post(address, person | identities(*rows)).status_code == 302
    stored = ChannelIdentity.objects.order_by("id").values_list("kind", "channel", "value")
    assert list(stored) == [("im", "telegram", "42"), ("email", "", "ann@example.com")]
    assert AuditEntry.objects.filter(action="channelidentity.added").count() == 2


def test_a2_an_address_that_is_typed_twice_is_said_beside_it(
    owner_client: Client, make_user: MakeUser
) -> None:
    """In two ways to write it, which are one."""
    ann = make_user("ann")
    address = f"/admin/core/user/{ann.pk}/change/"
    person = {"username": "ann", "only_listed": "on", "is_active": "on"}
    rows = [{"kind": "phone", "value": each} for each in ("+49 30 901820", "004930901820")]
    answer = owner_client.post(address, person | identities(*rows))
    assert answer.status_code == 200
    assert "This identity is in another row already." in answer.content.decode()
    assert not ChannelIdentity.objects.exists()
    others = [rows[0], {"kind": "phone", "value": "+49 30 901821"}]
    assert owner_client.post(address, person | identities(*others)).status_code == 302
    assert ChannelIdentity.objects.count() == 2


def test_a9_an_identity_that_is_removed_ends_its_runs(
    owner_client: Client, conversation: Run
) -> None:
    """[A9] RQ11: and the audit has a row."""
    identity = ChannelIdentity.objects.get()
    person = {"username": "ann", "only_listed": "on", "is_active": "on"}
    row = {"id": str(identity.pk), "kind": "im", "value": "42", "DELETE": "on", "user": "x"}
    address = f"/admin/core/user/{identity.user_id}/change/"
    assert owner_client.post(address, person | identities(row, initial=1)).status_code == 302
    assert not ChannelIdentity.objects.exists()
    conversation.refresh_from_db()
    assert conversation.cancel_requested_at is not None
    assert AuditEntry.objects.filter(action="channelidentity.deleted").exists()


@pytest.mark.parametrize(
    ("changed", "ends"),
    [
        ({"DELETE": "on"}, True),
        ({"expires_at_0": "2020-01-01", "expires_at_1": "0:00"}, True),
        ({}, False),
    ],
)
def test_a9_an_identity_that_ends_takes_an_open_link_code_along(
    owner_client: Client, make_user: MakeUser, changed: dict[str, str], *, ends: bool
) -> None:
    """[A9] It may have asked for the code, which would let another address in, for ever."""
    ann, ben = make_user("ann", im=["42"]), make_user("ben", im=["43"])
    account = ChannelAccount.objects.create(channel="memory", name="main")
    now = timezone.now()
    code, other = (link_codes.make(user=each, via="telegram", now=now) for each in (ann, ben))
    identity = ChannelIdentity.objects.get(user=ann)
    person = {"username": "ann", "only_listed": "on", "is_active": "on"}
    row = {"id": str(identity.pk), "kind": "im", "value": "42", "user": str(ann.pk)} | changed
    address = f"/admin/core/user/{ann.pk}/change/"
    assert owner_client.post(address, person | identities(row, initial=1)).status_code == 302
    there = link_codes.Address(account, "im", "1")
    if ends:
        with pytest.raises(link_codes.WrongCode):
            link_codes.use(code=code, address=there, now=now)
    else:
        assert link_codes.use(code=code, address=there, now=now) == ann
    there = link_codes.Address(account, "im", "2")
    assert link_codes.use(code=other, address=there, now=now) == ben


def test_a9_deactivating_a_user_cancels_their_runs(owner_client: Client, conversation: Run) -> None:
    """[A9] With before and after in the audit."""
    ann = User.objects.get(username="ann")
    form = {"username": "ann", "display_name": "Ann", "only_listed": "on"} | identities()
    assert owner_client.post(f"/admin/core/user/{ann.pk}/change/", form).status_code == 302
    conversation.refresh_from_db()
    assert conversation.cancel_requested_at is not None
    entry = AuditEntry.objects.get(action="user.changed")
    assert entry.data["is_active"] == [True, False]
    assert entry.data["display_name"] == ["", "Ann"]


def test_an_old_page_of_a_person_takes_back_nothing_that_it_does_not_change(
    owner_client: Client,
) -> None:
    """It made people active again, and owners."""
    person = User.objects.create(username="guest", is_owner=True)
    role = Group.objects.create(name="Helpers")
    address = reverse("admin:core_user_change", args=[person.pk])
    answer = owner_client.get(address)
    hidden = r'name="(initial-[a-z_]+)" value="([^"]*)"'
    sent = {**shown_fields(answer), **dict(re.findall(hidden, answer.content.decode()))}
    User.objects.filter(pk=person.pk).update(is_active=False, is_owner=False, language="de")
    person.groups.add(role)
    owner_client.post(address, {**sent, "display_name": "Ada"})
    person.refresh_from_db()
    assert (person.display_name, person.is_active, person.is_owner) == ("Ada", False, False)
    assert (person.language, list(person.groups.all())) == ("de", [role])
    changed = AuditEntry.objects.filter(action="user.changed").latest("id").data
    assert changed == {"display_name": ["", "Ada"]}


def test_a_refused_old_page_shows_each_identity_in_its_row(
    owner_client: Client, telegram: ChannelAccount
) -> None:
    """Behind one that was removed meanwhile each had the name of the next, and the last was lost,
    so that the page, sent again, took it away.
    """
    person = User.objects.create(username="guest")
    rows = [
        person.identities.create(kind="im", channel="telegram", account=telegram, value=value)
        for value in ("41", "42", "43")
    ]
    address = reverse("admin:core_user_change", args=[person.pk])
    sent = shown_fields(owner_client.get(address))
    rows[0].delete()
    answer = owner_client.post(address, {**sent, "identities-0-value": "44"})
    assert "These rows were changed elsewhere" in answer.content.decode()
    shown = answer.context["inline_admin_formsets"][0]
    named = [(each.form["value"].value(), str(each.original)) for each in shown if each.original]
    assert named[1:] == [("42", str(rows[1])), ("43", str(rows[2]))]
    inputs = re.findall(r'<input[^>]* name="identities-\d-value"[^>]*>', answer.content.decode())
    assert [re.findall(r' value="(\d+)"', each) for each in inputs] == [["44"], ["42"], ["43"]]


def test_an_old_page_of_a_person_takes_back_no_end_of_an_identity(
    owner_client: Client, telegram: ChannelAccount
) -> None:
    """Access that was ended in another tab held again, and the audit named a change."""
    person = User.objects.create(username="guest")
    row = person.identities.create(kind="im", channel="telegram", account=telegram, value="41")
    address = reverse("admin:core_user_change", args=[person.pk])
    answer = owner_client.get(address)
    hidden = r'name="(initial-[a-z0-9_-]+)" value="([^"]*)"'
    sent = {**shown_fields(answer), **dict(re.findall(hidden, answer.content.decode()))}
    assert sent["initial-identities-0-value"] == "41"
    end = timezone.now().replace(microsecond=0)
    ChannelIdentity.objects.filter(pk=row.pk).update(expires_at=end)
    assert owner_client.post(address, {**sent, "display_name": "Ada"}).status_code == 302
    row.refresh_from_db()
    assert (row.value, row.expires_at) == ("41", end)
    assert not AuditEntry.objects.filter(action="channelidentity.changed").exists()
    assert owner_client.post(address, {**sent, "identities-0-value": "42"}).status_code == 302
    row.refresh_from_db()
    assert (row.value, row.account, row.expires_at) == ("42", telegram, end)
    assert owner_client.post(address, {**sent, "identities-0-DELETE": "on"}).status_code == 302
    assert not person.identities.exists()
    assert owner_client.post(address, {**sent, "display_name": "Eve"}).status_code == 302
    person.refresh_from_db()
    assert person.display_name == "Eve"
    answer = owner_client.post(address, {**sent, "identities-0-value": "43"})
    assert "These rows were changed elsewhere" in answer.content.decode()
    assert not person.identities.exists()
    # The sender was given to another person.
    other = User.objects.create(username="other")
    other.identities.create(kind="im", channel="telegram", account=telegram, value="41")
    assert owner_client.post(address, {**sent, "display_name": "Zoe"}).status_code == 302
    person.refresh_from_db()
    assert (person.display_name, person.identities.count()) == ("Zoe", 0)
    telegram.delete()
    assert owner_client.post(address, {**sent, "display_name": "Yves"}).status_code == 302


@pytest.mark.parametrize("by_identity", [False, True])
def test_a9_closing_an_open_list_ends_the_requests_of_its_senders(
    owner_client: Client,
    make_user: MakeUser,
    telegram: ChannelAccount,
    start: Callable[..., Run],
    now: datetime,
    by_identity: bool,
) -> None:
    """[A9] Not what the person asked at a page, nor what a schedule did."""
    ann = make_user("ann", only_listed=False)
    of_stranger, of_person = start(ann, "800"), start(ann, "")
    draft = Draft(account=telegram, sender="801", chat="801", text="Hello", message_id="1")
    assert receive_sender(draft=draft, now=now, debounce=True).outcome == "accepted"
    rows = [{"kind": "im", "channel": "telegram", "value": "802"}] if by_identity else []
    listed = {} if by_identity else {"only_listed": "on"}  # the first identity closes it as well
    form = {"username": "ann", "is_active": "on"} | listed | identities(*rows)
    assert owner_client.post(f"/admin/core/user/{ann.pk}/change/", form).status_code == 302
    for run, is_ended in ((of_stranger, True), (of_person, False)):
        run.refresh_from_db()
        assert (run.cancel_requested_at is not None) == is_ended
    assert InboundMessage.objects.get(sender="801").state == InboundMessage.State.ANSWERED


def test_a_new_person_has_no_password_and_is_only_listed(owner_client: Client) -> None:
    """[A1]"""
    form = {"username": "new", "display_name": "New", "only_listed": "on"} | identities()
    assert owner_client.post("/admin/core/user/add/", form).status_code == 302
    person = User.objects.get(username="new")
    assert person.only_listed
    assert not person.has_usable_password()
    assert AuditEntry.objects.filter(action="user.added").exists()


def test_a_changed_identity_is_audited_with_its_old_value(
    owner_client: Client, conversation: Run
) -> None:
    """[A9] A changed address is a revoked one and a new one; an unfinished row is refused."""
    identity = ChannelIdentity.objects.get()
    person = {"username": "ann", "only_listed": "on", "is_active": "on"}
    address = f"/admin/core/user/{identity.user_id}/change/"
    row = {"id": str(identity.pk), "user": str(identity.user_id), "kind": "im", "value": ""}
    assert owner_client.post(address, person | identities(row, initial=1)).status_code == 200
    assert (
        owner_client.post(
            address, person | identities(row | {"value": "43"}, initial=1)
        ).status_code
        == 302
    )
    entry = AuditEntry.objects.get(action="channelidentity.changed")
    assert entry.data["before"] == "im:42"
    assert "im:43" in entry.subject
    conversation.refresh_from_db()
    assert conversation.cancel_requested_at is not None


def test_a_password_is_set_by_the_owner_and_audited(
    owner_client: Client, make_user: MakeUser
) -> None:
    """Without the password in it."""
    ann = make_user("ann")
    address = f"/admin/core/user/{ann.pk}/password/"
    page(owner_client, address)
    secret = "correct horse battery"
    assert (
        owner_client.post(address, {"password1": secret, "password2": "other"}).status_code == 200
    )
    assert not AuditEntry.objects.exists()
    assert owner_client.post(address, {"password1": secret, "password2": secret}).status_code == 302
    ann.refresh_from_db()
    assert ann.check_password(secret)
    assert AuditEntry.objects.get().action == "user.password_set"
    assert "horse" not in str(AuditEntry.objects.values())


def test_a_person_is_deleted_on_their_page_with_all_that_is_theirs(
    owner_client: Client, conversation: Run
) -> None:
    """The page says how much goes; the audit stays."""
    ann = User.objects.get(username="ann")
    address = f"/admin/core/user/{ann.pk}/delete/"
    assert "Chat sessions" in page(owner_client, address)
    assert owner_client.post(address, {"post": "yes"}).status_code == 302
    assert not Run.objects.exists()
    assert AuditEntry.objects.filter(action="user.deleted").count() == 1


def test_people_are_deleted_one_by_one_and_audited(owner_client: Client, conversation: Run) -> None:
    """[A9] Also by the action of the list; the owner cannot delete themselves."""
    ann = User.objects.get(username="ann")
    owner = User.objects.get(username="owner")
    chosen = {"action": "delete_selected", "_selected_action": [str(ann.pk)], "post": "yes"}
    owner_client.post("/admin/core/user/", chosen)
    assert not User.objects.filter(pk=ann.pk).exists()
    assert AuditEntry.objects.filter(action="user.deleted").count() == 1
    assert (
        owner_client.post(f"/admin/core/user/{owner.pk}/delete/", {"post": "yes"}).status_code
        == 403
    )


def test_the_owner_makes_a_sign_in_link_that_is_shown_once(
    owner_client: Client, make_user: MakeUser
) -> None:
    """By POST only; it signs that person in; it is not kept in the clear, nor in the audit."""
    ann = make_user("ann")
    address = reverse("admin:core_user_sign_in_link", args=[ann.pk])
    assert owner_client.get(address).status_code == 405
    answer = owner_client.post(address)
    assert "no-store" in answer.headers["Cache-Control"]
    link = re.search(r"http://testserver(/sign-in/[\w-]{43})", answer.content.decode())
    assert link is not None
    assert link[1].split("/")[-1] not in str(SignInLink.objects.values())
    assert AuditEntry.objects.get().action == "user.sign_in_link"
    assert "sign-in/" not in str(AuditEntry.objects.values())
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert owner_client.post(address).status_code == 404


def test_rq19_staff_can_neither_grant_permissions_nor_change_users_with_permissions(
    client: Client, staff: User, owner: User, make_user: MakeUser
) -> None:
    """RQ19: not to themselves, not to others, not by password, link or deletion."""
    client.force_login(staff)
    rights = {"is_staff": "on", "is_superuser": "on", "is_owner": "on", "user_permissions": "1"}
    ann = make_user("ann")
    form = {"username": "ann", "display_name": "Ann", "only_listed": "on", "is_active": "on"}
    form |= identities()
    assert client.post(f"/admin/core/user/{ann.pk}/change/", form | rights).status_code == 302
    ann.refresh_from_db()
    assert ann.display_name == "Ann"
    assert not (ann.is_staff or ann.is_superuser or ann.is_owner)  # noqa: PT018 - one question
    assert not ann.user_permissions.exists()
    for person in (staff, owner):
        base = f"/admin/core/user/{person.pk}"
        assert client.post(f"{base}/change/", form | rights).status_code == 403
        assert client.post(f"{base}/delete/", {"post": "yes"}).status_code == 403
        assert client.get(f"{base}/password/").status_code == 403
        assert client.post(f"{base}/sign-in-link/").status_code == 403
    assert client.post(f"/admin/core/user/{ann.pk}/sign-in-link/").status_code == 403
    staff.refresh_from_db()
    assert not staff.is_superuser


def test_the_owner_cannot_lock_themselves_out(owner_client: Client, owner: User) -> None:
    """Active, staff and superuser are read-only on one's own page."""
    form = {"username": "owner", "display_name": "O", "only_listed": "on", "is_owner": "on"}
    assert (
        owner_client.post(f"/admin/core/user/{owner.pk}/change/", form | identities()).status_code
        == 302
    )
    owner.refresh_from_db()
    assert owner.display_name == "O"
    assert owner.is_active
    assert owner.is_superuser


def test_a8_the_page_that_explains_access(
    owner_client: Client, client: Client, telegram: ChannelAccount, make_user: MakeUser
) -> None:
    """[A8] Allowed and denied, with the reason; a missing field is said."""
    make_user("ann", im=["42"])
    address = reverse("admin:access_check")
    asked = f"{address}?account={telegram.pk}&kind=im&group=&sender="
    assert "is listed by ann" in page(owner_client, asked + "42")
    assert "no user lists im:41, and no list is open" in page(owner_client, asked + "41")
    assert "required" in page(owner_client, asked)
    assert "Explain" in page(owner_client, address)
    nobody = make_user("clerk")
    User.objects.filter(pk=nobody.pk).update(is_staff=True)
    nobody.refresh_from_db()
    client.force_login(nobody)
    assert client.get(address).status_code == 403


def test_a_sign_in_that_is_locked_is_unlocked(owner_client: Client, conversation: Run) -> None:
    """By deleting its row."""
    row = AccessAttempt.objects.get()
    chosen = {"action": "delete_selected", "_selected_action": [str(row.pk)], "post": "yes"}
    owner_client.post("/admin/axes/accessattempt/", chosen)
    assert not AccessAttempt.objects.exists()


# Keys.


def test_a10_a_key_is_made_in_the_admin_and_shown_once(
    owner_client: Client, make_user: MakeUser
) -> None:
    """[A10] The token opens; no page shows it or its hash again."""
    ann = make_user("ann")
    form = {"name": "laptop", "user": str(ann.pk), "scopes": ["chat", "inbound"]}
    answer = owner_client.post("/admin/allowlist/apikey/add/", form)
    assert "no-store" in answer.headers["Cache-Control"]
    token = re.search(r"lk_[0-9a-f]{12}_[\w-]{43}", answer.content.decode())
    assert token is not None
    key = keys.authenticate(token=token[0], now=timezone.now())
    assert key is not None
    assert (key.user, key.scopes) == (ann, ["chat", "inbound"])
    pages = page(owner_client, "/admin/allowlist/apikey/")
    pages += page(owner_client, f"/admin/allowlist/apikey/{key.pk}/change/")
    assert token[0] not in pages
    assert key.digest not in pages
    assert token[0] not in str(AuditEntry.objects.values())


def test_w22_a_key_for_the_model_only_is_made_and_listed_as_such(
    owner_client: Client, make_user: MakeUser
) -> None:
    """[W22] The box has a help text; the list and the key's page say what answers; so does the
    audit.
    """
    assert "without its instructions and tools" in page(
        owner_client, "/admin/allowlist/apikey/add/"
    )
    ann = make_user("ann")
    form = {"name": "agent", "user": str(ann.pk), "scopes": ["chat"], "model_only": "on"}
    owner_client.post("/admin/allowlist/apikey/add/", form)
    key = ApiKey.objects.get(name="agent")
    assert key.model_only
    assert "model only" in page(owner_client, "/admin/allowlist/apikey/")
    assert "model only" in page(owner_client, f"/admin/allowlist/apikey/{key.pk}/change/")
    assert AuditEntry.objects.get(action="key.created").data["model_only"] is True
    owner_client.post("/admin/allowlist/apikey/add/", {**form, "name": "usual", "model_only": ""})
    assert "gateway assistant" in page(owner_client, "/admin/allowlist/apikey/")


@pytest.mark.parametrize(
    "form",
    [
        {"name": "x", "scopes": ["chat"]},
        {"name": "x", "scopes": ["chat"], "user": "1", "account": "1"},
        {"name": "x", "scopes": ["root"], "user": "1"},
        {"name": "x", "user": "1"},
        {
            "name": "x",
            "scopes": ["chat"],
            "user": "1",
            "expires_at_0": "2020-01-01",
            "expires_at_1": "0:00",
        },
    ],
)
def test_a10_a_key_without_holder_or_scope_or_that_has_ended_is_refused(
    owner_client: Client, telegram: ChannelAccount, form: dict[str, Any]
) -> None:
    """[A10] The form says so, and no constraint of the database beside it."""
    if "user" in form:
        form = form | {"user": str(User.objects.get().pk)}
    if "account" in form:
        form = form | {"account": str(telegram.pk)}
    refused = owner_client.post("/admin/allowlist/apikey/add/", form)
    assert refused.status_code == 200
    assert "Please correct the error" in refused.content.decode()
    assert "Constraint" not in refused.content.decode()
    assert not ApiKey.objects.exists()


def test_a10_a_key_is_revoked_in_the_list_and_never_changed_or_deleted(
    owner_client: Client, conversation: Run
) -> None:
    """[A9][A10]"""
    key = ApiKey.objects.get()
    address = f"/admin/allowlist/apikey/{key.pk}"
    assert owner_client.post(f"{address}/change/", {"name": "other"}).status_code == 403
    assert owner_client.post(f"{address}/delete/", {"post": "yes"}).status_code == 403
    chosen = {"action": "revoke", "_selected_action": [str(key.pk)]}
    Budget.objects.create(key_id=key.pk, unit="tokens", period="day", limit=1)
    shown = owner_client.post("/admin/allowlist/apikey/", chosen, follow=True).content.decode()
    assert "a new key in its place needs them again" in shown
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert AuditEntry.objects.filter(action="key.revoked").count() == 1


def test_rq19_staff_see_make_and_revoke_their_own_keys_only(
    client: Client, staff: User, conversation: Run, telegram: ChannelAccount
) -> None:
    """RQ19: another's key answers like one that does not exist."""
    client.force_login(staff)
    other = ApiKey.objects.get()
    assert other.prefix not in page(client, "/admin/allowlist/apikey/")
    assert client.get(f"/admin/allowlist/apikey/{other.pk}/change/").status_code == 302
    client.post(
        "/admin/allowlist/apikey/", {"action": "revoke", "_selected_action": [str(other.pk)]}
    )
    other.refresh_from_db()
    assert other.revoked_at is None
    ann = User.objects.get(username="ann")
    form = {"name": "mine", "user": str(ann.pk), "account": str(telegram.pk), "scopes": ["chat"]}
    assert b"lk_" in client.post("/admin/allowlist/apikey/add/", form).content
    mine = ApiKey.objects.get(name="mine")
    assert mine.user == staff
    assert mine.account is None


# Conversations, the audit, accounts.


def test_a_session_is_a_readable_transcript(owner_client: Client, conversation: Run) -> None:
    """Escaped, in order, with hidden characters shown and a way to the run."""
    html = page(owner_client, f"/admin/core/chatsession/{conversation.session_id}/change/")
    said = html.index("user says &lt;script&gt;")
    assert said < html.index("assistant says &lt;script&gt;")
    assert "⟨U+202E⟩evil" in html
    assert f"/admin/core/run/{conversation.pk}/change/" in html


def test_a_long_session_shows_its_last_messages(owner_client: Client, conversation: Run) -> None:
    """500 of them, and says that there are more."""
    Message.objects.bulk_create(
        Message(session=conversation.session, role="user", text=f"line {number:04}")
        for number in range(600)
    )
    html = page(owner_client, f"/admin/core/chatsession/{conversation.session_id}/change/")
    assert "Only the last messages" in html
    assert "line 0099" not in html
    assert html.index("line 0100") < html.index("line 0599")


def test_a_run_shows_its_events_jobs_and_deliveries(
    owner_client: Client, conversation: Run
) -> None:
    """Also an event that is not JSON."""
    html = page(owner_client, f"/admin/core/run/{conversation.pk}/change/")
    assert "{&quot;props&quot;:{&quot;content&quot;:&quot;hey&quot;}}" in html
    assert "not json" in html
    assert "summarize" in html
    assert "uncertain" in html


def test_a_run_is_cancelled_by_hand(owner_client: Client, conversation: Run) -> None:
    """A run that has ended is left alone."""
    chosen = {"action": "cancel", "_selected_action": [str(conversation.pk)]}
    assert b"1 of 1 run." in owner_client.post("/admin/core/run/", chosen, follow=True).content
    conversation.refresh_from_db()
    assert conversation.cancel_requested_at is not None
    Run.objects.update(state="cancelled")
    assert b"0 of 1 run." in owner_client.post("/admin/core/run/", chosen, follow=True).content


def test_dead_letters_are_sent_again_or_dismissed(owner_client: Client, conversation: Run) -> None:
    """Dead and uncertain ones; one that was sent is not sent twice."""
    dead, unsure, sent = Delivery.objects.order_by("block_index")
    assert outbox.dead_count() == 2
    chosen = {"action": "retry", "_selected_action": [str(dead.pk), str(sent.pk)]}
    assert (
        b"Sent again: 1 delivery."
        in owner_client.post("/admin/core/delivery/", chosen, follow=True).content
    )
    chosen = {"action": "dismiss", "_selected_action": [str(unsure.pk), str(sent.pk)]}
    assert (
        b"Dismissed: 1 delivery."
        in owner_client.post("/admin/core/delivery/", chosen, follow=True).content
    )
    states = Delivery.objects.order_by("block_index").values_list("state", flat=True)
    assert list(states) == ["pending", "dismissed", "sent"]


def test_the_audit_is_read_only(owner_client: Client, request_row: UnknownRequest) -> None:
    """No add, no change, no delete; its data is shown."""
    decide(owner_client, request_row, "deny")
    entry = AuditEntry.objects.get()
    base = "/admin/allowlist/auditentry/"
    assert "&quot;sender&quot;: &quot;im:41&quot;" in page(
        owner_client, f"{base}{entry.pk}/change/"
    )
    assert owner_client.get(f"{base}add/").status_code == 403
    assert owner_client.post(f"{base}{entry.pk}/change/", {"actor": "x"}).status_code == 403
    assert owner_client.post(f"{base}{entry.pk}/delete/", {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [str(entry.pk)], "post": "yes"}
    owner_client.post(base, chosen)
    assert AuditEntry.objects.get() == entry


def test_c1_the_secrets_of_an_account_go_in_and_never_come_out(
    owner_client: Client, telegram: ChannelAccount
) -> None:
    """[C1] Encrypted at rest, named but not shown, audited without their value, removable."""
    base = f"/admin/core/channelaccount/{telegram.pk}/change/"
    form = {"channel": "telegram", "name": "main", "config": "{}"}
    secret = {"secret_name": "token", "secret_value": "123:hush-hush"}
    incomplete = owner_client.post(base, form | secret | {"enabled": "on"})
    assert "Not yet: " in incomplete.content.decode()
    assert owner_client.post(base, form | secret).status_code == 302
    telegram.refresh_from_db()
    assert encryption.decrypt(telegram.secrets) == {"token": "123:hush-hush"}
    html = page(owner_client, base)
    assert "hush" not in html + telegram.secrets + str(AuditEntry.objects.values())
    assert telegram.secrets not in html
    assert "token" in html
    assert AuditEntry.objects.filter(action="channelaccount.secret_set").count() == 1
    assert owner_client.post(base, form | {"secret_value": "nameless"}).status_code == 200
    assert owner_client.post(base, form | {"secret_name": "token"}).status_code == 302
    telegram.refresh_from_db()
    assert telegram.secrets == ""
    ChannelAccount.objects.update(secrets="garbage")
    assert "cannot be opened" in page(owner_client, base)


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (1_764_408_000, "2025-11-29 09:20 UTC"),
        (1_764_408_000_000, "1764408000000"),
        (-(10**12), "-1000000000000"),
        (10**18, "1000000000000000000"),
        (10**30, "1" + "0" * 30),
    ],
)
def test_a_time_that_a_platform_reports_in_another_unit_is_shown_as_it_is(
    owner_client: Client, telegram: ChannelAccount, at: int, shown: str
) -> None:
    """It would stop the page of all accounts, until the platform reports another one."""
    ChannelAccount.objects.update(health={"last_error_at": at})
    assert f"last error at: {shown}" in page(owner_client, "/admin/core/channelaccount/")


def test_an_account_is_changed_with_before_and_after_in_the_audit(
    owner_client: Client, telegram: ChannelAccount
) -> None:
    """Issue 6, item 7."""
    base = f"/admin/core/channelaccount/{telegram.pk}/change/"
    owner_client.post(base, {"channel": "telegram", "name": "main", "config": '{"a": 1}'})
    entry = AuditEntry.objects.get(action="channelaccount.changed")
    assert entry.data == {"enabled": [True, False], "config": [{}, {"a": 1}]}
