"""Accounts at MCP servers in the admin: connected, shown without tokens, removed (V77, V78)."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from allowlist.models import AuditEntry
from core.lib.encryption import decrypt, encrypt
from core.models import (
    ChannelAccount,
    ChatSession,
    McpConnection,
    McpRevocation,
    McpServer,
    McpSignIn,
    Run,
    RunPause,
    ToolCall,
    User,
)
from core.tools.mcp.oauth import sign_ins
from tests.channels_app.admin.conftest import messages_of, page, shown_fields

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hosts")]
TOKEN = "planted-token-0123456789"
SECRET = "planted-secret-0123456789"


@pytest.fixture
def row(db: None) -> McpServer:
    return McpServer.objects.create(
        name="Notes",
        slug="notes",
        url="https://api.example.com/mcp",
        authentication="person",
        enabled=False,
        registration=encrypt({"client": "{}"}),
    )


def connected(row: McpServer, user: User | None) -> McpConnection:
    kept = {"access_token": TOKEN, "refresh_token": TOKEN, "metadata": "{}"}
    return McpConnection.objects.create(
        server=row, user=user, secrets=encrypt(kept), scope="notes", connected_at=timezone.now()
    )


def action(name: str, row: McpServer) -> str:
    return reverse(f"admin:core_mcpserver_{name}", args=[row.pk])


def fields_of(browser: Client, row: McpServer, **more: str) -> dict[str, Any]:
    """Return the fields of the server's form, some of them changed."""
    return {**shown_fields(browser.get(page(McpServer, row.pk))), **more}


def test_v77_an_owner_connects_and_removes_accounts(browser: Client, row: McpServer) -> None:
    """[V77] Connect leads to the page of a sign-in of their own; removing is recorded."""
    ann = User.objects.create(username="ann", display_name="Ann")
    connection = connected(row, ann)
    answer = browser.post(action("connect", row), follow=True)
    assert "Enable the server first: it takes no sign-in" in messages_of(answer)
    assert not McpSignIn.objects.exists()
    McpServer.objects.update(enabled=True)
    answer = browser.post(action("connect", row))
    made = McpSignIn.objects.get()
    assert answer.headers["Location"] == f"/mcp/oauth/sign-in/{made.public_id}"
    assert (made.user.is_owner, made.of_gateway) == (True, False)
    shown = browser.get(page(McpServer, row.pk)).content.decode()
    assert "Ann" in shown
    assert "notes" in shown
    assert TOKEN not in shown
    browser.post(action("disconnect", row), {"connection": "x"})
    assert McpConnection.objects.count() == 1
    browser.post(action("disconnect", row), {"connection": connection.pk})
    assert McpConnection.objects.count() == 0
    assert McpRevocation.objects.count() == 1
    entry = AuditEntry.objects.get(action="mcp.disconnected")
    assert entry.data["person"] == "ann"


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "https://api.example.com/other"},
        {"authentication": "gateway"},
        {"client_id": "another"},
    ],
)
def test_v77_no_token_is_sent_to_another_address(
    browser: Client, row: McpServer, changed: dict[str, str]
) -> None:
    """[V77] A changed address, client or authentication ends the accounts and the sign-ins that are
    on their way; a name does not.
    """
    connected(row, User.objects.create(username="ann"))
    begun = sign_ins.create(row, User.objects.get(username="ann"), now=timezone.now())
    McpSignIn.objects.update(state="exchanging", secrets=encrypt({"verifier": "x"}))
    answer = browser.post(page(McpServer, row.pk), fields_of(browser, row, name="Notebook"))
    assert answer.status_code == 302
    assert McpConnection.objects.count() == 1
    begun.refresh_from_db()
    assert begun.state == "exchanging"
    answer = browser.post(page(McpServer, row.pk), fields_of(browser, row, **changed))
    assert answer.status_code == 302
    assert McpConnection.objects.count() == 0
    begun.refresh_from_db()
    assert (begun.state, begun.secrets) == ("ended", "")
    row.refresh_from_db()
    assert row.registration == ""


def test_v77_calls_that_wait_for_a_sign_in_are_locked_before_the_audit(
    browser: Client, row: McpServer
) -> None:
    """As by those who decide about them: in two orders each would wait for the other."""
    ann = User.objects.create(username="ann")
    connected(row, ann)
    begun = sign_ins.create(row, ann, now=timezone.now())
    account = ChannelAccount.objects.create(channel="http")
    session = ChatSession.objects.create(user=ann, account=account)
    run = Run.objects.create(session=session, user=ann, state="succeeded")
    RunPause.objects.create(run=run, messages=[])
    call = ToolCall.objects.create(
        run=run, call_id="c", tool="t", state="waiting", kind="sign_in", sign_in=begun, asked_of=ann
    )
    changed = fields_of(browser, row, url="https://api.example.com/other")
    with CaptureQueriesContext(connection) as asked:
        assert browser.post(page(McpServer, row.pk), changed).status_code == 302
    call.refresh_from_db()
    assert call.state == "denied"
    texts = [each["sql"] for each in asked]
    paused, raised, audited = (
        next(at for at, text in enumerate(texts) if part in text)
        for part in (RunPause._meta.db_table, 'SET "models_version"', AuditEntry._meta.db_table)
    )
    assert paused < raised < audited


def test_v77_the_audit_is_locked_after_all_accounts_and_sign_ins_that_end(
    browser: Client, row: McpServer
) -> None:
    """[V77] A person who removes their own account, or declines its sign-in, at the same moment
    locks these first: in another order each would wait for the other.
    """
    ann, bob = (User.objects.create(username=name) for name in ("ann", "bob"))
    for each in (ann, bob):
        connected(row, each)
    sign_ins.create(row, ann, now=timezone.now())
    form = fields_of(browser, row, url="https://api.example.com/other", people=str(ann.pk))
    with CaptureQueriesContext(connection) as found:
        assert browser.post(page(McpServer, row.pk), form).status_code == 302
    said = [each["sql"] for each in found]
    audited = [at for at, sql in enumerate(said) if 'INSERT INTO "allowlist_auditentry"' in sql]
    ended = [
        at
        for at, sql in enumerate(said)
        if 'DELETE FROM "core_mcpconnection"' in sql
        or 'UPDATE "core_mcpsignin"' in sql
        or ('core_mcpserver_people"' in sql and "INSERT" in sql)
    ]
    assert len(ended) == 4
    assert min(audited) > max(ended)


def test_v78_the_client_secret_is_kept_encrypted_and_never_shown(
    browser: Client, row: McpServer
) -> None:
    """[V78] Empty keeps it; without a client id it goes; the key is beside it."""
    given = {"client_id": "mine", "client_secret": SECRET}
    browser.post(page(McpServer, row.pk), fields_of(browser, row, **given))
    row.refresh_from_db()
    assert SECRET not in row.secrets
    assert decrypt(row.secrets) == {"client_secret": SECRET}
    assert SECRET not in browser.get(page(McpServer, row.pk)).content.decode()
    browser.post(page(McpServer, row.pk), fields_of(browser, row, key="a-key"))
    row.refresh_from_db()
    assert decrypt(row.secrets) == {"client_secret": SECRET, "key": "a-key"}
    browser.post(page(McpServer, row.pk), fields_of(browser, row, remove_key="on"))
    row.refresh_from_db()
    assert decrypt(row.secrets) == {"client_secret": SECRET}
    browser.post(page(McpServer, row.pk), fields_of(browser, row, client_id=""))
    row.refresh_from_db()
    assert decrypt(row.secrets) == {}


def test_v77_staff_and_guests_connect_and_remove_nothing(row: McpServer) -> None:
    """[V77] Also by forged requests."""
    connection = connected(row, None)
    for name in ("guest", "staff"):
        browser = Client()
        browser.force_login(User.objects.create(username=name, is_staff=name == "staff"))
        for each in ("connect", "disconnect"):
            answer = browser.post(action(each, row), {"connection": connection.pk})
            assert answer.status_code in {302, 403, 404}
            assert "/mcp/oauth/" not in answer.headers.get("Location", "")
    assert McpConnection.objects.count() == 1
    assert McpSignIn.objects.count() == 0


def test_v73_a_new_secret_or_client_id_may_belong_to_another_authorization_server(
    browser: Client, row: McpServer
) -> None:
    """[V73] A new address alone may not: the owner enters the secret again."""

    def bound() -> str:
        row.refresh_from_db()
        return decrypt(row.secrets).get("issuer", "")

    def bind() -> None:
        given = {"client_secret": SECRET, "issuer": "https://old.example"}
        McpServer.objects.filter(pk=row.pk).update(client_id="mine", secrets=encrypt(given))
        row.refresh_from_db()

    bind()
    other = {"url": "https://api.example.com/other"}
    browser.post(page(McpServer, row.pk), fields_of(browser, row, **other))
    assert bound() == "https://old.example"
    for given in ({"client_secret": "another-secret"}, {"client_id": "another"}):
        bind()
        browser.post(page(McpServer, row.pk), fields_of(browser, row, **given))
        assert bound() == ""
