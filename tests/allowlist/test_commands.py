"""The owner's commands in a shell: explain, keys, requests, importing people."""

import io
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection
from django.utils import timezone

from allowlist import keys, unknown_requests
from allowlist.checks import open_to_everyone
from allowlist.models import ApiKey, AuditEntry, UnknownRequest
from allowlist.permissions import Sender, decide
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, Run, User
from tests.allowlist.conftest import Hold, MakeUser

pytestmark = pytest.mark.django_db


def run(name: str, *arguments: str) -> str:
    """Run a command; return its standard output and its errors."""
    out = io.StringIO()
    call_command(name, *arguments, stdout=out, stderr=out)
    return out.getvalue()


def test_a8_access_check_prints_the_matched_user_and_rule(
    telegram: ChannelAccount, make_user: MakeUser
) -> None:
    """[A8] The user and the rule."""
    ann = make_user("ann", im=["42"])
    text = run("access_check", "--channel", "telegram", "--id", "42")
    assert "yes  listed" in text
    assert f"allowed as ann (user {ann.pk})" in text


def test_a8_access_check_prints_why_no_user_matched(
    telegram: ChannelAccount, make_user: MakeUser
) -> None:
    """[A8] Status 1, the reason; for an id that is none, and on a channel without account too."""
    make_user("ann", im=["42"])
    with pytest.raises(CommandError, match="no user lists im:41, and no list is open") as error:
        run("access_check", "--channel", "telegram", "--id", "41")
    assert error.value.returncode == 1
    with pytest.raises(CommandError, match="numeric id"):
        run("access_check", "--channel", "telegram", "--id", "@ann")
    with pytest.raises(CommandError, match="the group -1001 is not listed"):
        run("access_check", "--channel", "telegram", "--id", "42", "--group", "-1001")
    elsewhere = run("access_check", "--channel", "matrix", "--id", "42")
    assert "allowed as ann" in elsewhere
    assert "There is no account matrix/default" in elsewhere  # a typing error, most often
    email = ["--channel", "telegram", "--account", "main", "--kind", "email", "--id", "a@b.example"]
    with pytest.raises(CommandError, match="denied"):
        run("access_check", *email)


def test_a1_check_deploy_warns_of_a_user_that_is_open_to_everyone(make_user: MakeUser) -> None:
    """[A1] ``allowlist.W001`` names the user and the kinds."""

    def warnings() -> list[str]:
        found = run_checks(tags=["security"], include_deployment_checks=True)
        return [check.msg for check in found if check.id == "allowlist.W001"]

    make_user("closed")
    make_user("listed", only_listed=False, im=["1"], email=["a@b.example"], phone=["+491761234567"])
    make_user("gone", only_listed=False, active=False)
    assert warnings() == []
    make_user("half", only_listed=False, im=["2"])
    make_user("wide", only_listed=False)
    assert sorted(warnings()) == [
        "half is open to everyone on email, phone.",
        "wide is open to everyone on im, email, phone.",
    ]


def test_a1_the_warning_is_silent_before_the_tables_are_there() -> None:
    """`check` runs on a fresh checkout."""

    def broken(*_: object) -> None:
        raise DatabaseError("no such table")

    with connection.execute_wrapper(broken):
        assert open_to_everyone(None) == []


def test_a10_create_key_prints_the_token_once(
    make_user: MakeUser, telegram: ChannelAccount
) -> None:
    """[A10] For a person or for a bridge account; it opens, with its scopes, until it expires."""
    ann = make_user("ann")
    out, note = io.StringIO(), io.StringIO()
    call_command(
        "create_key", "laptop", user="ann", scope=["chat"], days=2, stdout=out, stderr=note
    )
    token = out.getvalue().strip()
    key = keys.authenticate(token=token, now=timezone.now())
    assert key is not None
    assert (key.user, key.scopes) == (ann, ["chat"])
    assert token not in note.getvalue()
    assert keys.authenticate(token=token, now=timezone.now() + timedelta(days=3)) is None
    assert not key.model_only
    assert "lk_" in run("create_key", "b", "--account", "telegram/main", "--scope", "inbound")
    run("create_key", "agent", "--user", "ann", "--scope", "chat", "--model-only")
    assert ApiKey.objects.get(name="agent").model_only
    for wrong in (["--user", "nobody"], ["--account", "telegram/other"]):
        with pytest.raises(CommandError, match="there is no"):
            run("create_key", "x", *wrong, "--scope", "chat")
    for days in ("0", "-1", "1000000000"):  # none of which may mean: for ever
        with pytest.raises(CommandError, match="--days must be"):
            run("create_key", "x", "--user", "ann", "--scope", "chat", "--days", days)
    assert not ApiKey.objects.filter(name="x").exists()


def test_a6_requests_are_listed_and_decided_in_a_shell(
    telegram: ChannelAccount, owner: User, hold: Hold, make_user: MakeUser
) -> None:
    """[A6][A7] Approving runs held messages as that user; the second gets the first decision."""
    now = timezone.now()
    message = hold(sender="41", text="hello", at=now)
    row = unknown_requests.record(
        unknown_requests.DeniedMessage(
            account=telegram,
            kind="im",
            sender="41",
            chat="41",
            text="hello\x1b[0m",
            message=message,
        ),
        now=now,
    )
    listed = run("requests", "list")
    assert row.public_id in listed
    assert "\x1b" not in listed
    ann = make_user("ann")
    assert "Approved by owner" in run("requests", "approve", row.public_id, "--user", "ann")
    assert run("requests", "list") == ""
    message.refresh_from_db()
    assert message.state == InboundMessage.State.BATCHED
    assert Run.objects.get().user == ann
    with pytest.raises(CommandError, match="Already approved by owner"):
        run("requests", "deny", row.public_id)
    with pytest.raises(CommandError, match="does not exist"):
        run("requests", "block", "nonsense")
    with pytest.raises(CommandError, match="no active user"):
        run("requests", "approve", row.public_id, "--user", "bob")


def test_a6_the_shell_decides_as_one_named_owner(telegram: ChannelAccount, owner: User) -> None:
    """[A6] With two owners it must be said which."""
    row = unknown_requests.record(
        unknown_requests.DeniedMessage(account=telegram, kind="im", sender="41"), now=timezone.now()
    )
    User.objects.create(username="second", is_owner=True)
    with pytest.raises(CommandError, match=f"--owner: {owner.username}, second"):
        run("requests", "deny", row.public_id)
    with pytest.raises(CommandError, match="no such owner"):
        run("requests", "deny", row.public_id, "--owner", "third")
    run("requests", "deny", row.public_id, "--owner", "second")
    assert UnknownRequest.objects.get().decided_by == User.objects.get(username="second")


@pytest.mark.parametrize("beginning", ["-", "-v", "-h", "--"])
def test_a6_an_id_that_begins_with_a_dash_is_no_option(
    beginning: str, telegram: ChannelAccount, owner: User
) -> None:
    """[A6] One id in 64 does, and some of these begin like an option."""
    row = unknown_requests.record(
        unknown_requests.DeniedMessage(account=telegram, kind="im", sender="41"), now=timezone.now()
    )
    dashed = beginning + row.public_id[len(beginning) :]
    UnknownRequest.objects.update(public_id=dashed)
    run("requests", "deny", dashed, "--owner", owner.username)
    assert UnknownRequest.objects.get().state == UnknownRequest.State.DENIED


USER_YML = """
users:
  - name: Ann Example
    id: ann
    im: [42, "telegram:43", "@ann:example.org", 0012]
    email: [Ann@Example.com]
    phone: [+49 176 12345678]
  - name: Bob B.
    im: ["telegram:44"]
    email: []
"""


def test_import_users_keeps_the_meaning_of_the_file(
    tmp_path: Path, telegram: ChannelAccount
) -> None:
    """Requirement 1 §2: lists as they are; an empty one means everyone, which is said."""
    path = tmp_path / "user.yml"
    path.write_text(USER_YML, encoding="utf-8")
    text = run("import_users", str(path))
    assert "! Bob-B. is open to everyone on email, phone (empty lists)" in text
    ann, bob = User.objects.get(username="ann"), User.objects.get(username="Bob-B.")
    assert ann.only_listed
    assert not bob.only_listed
    rows = ChannelIdentity.objects.filter(user=ann).order_by("id")
    assert [(row.kind, row.channel, row.value) for row in rows] == [
        ("im", "", "42"),
        ("im", "telegram", "43"),
        ("im", "", "@ann:example.org"),
        ("im", "", "0012"),
        ("email", "", "ann@example.com"),
        ("phone", "", "+4917612345678"),
    ]
    sender = Sender(telegram, "im", "44")
    assert decide(sender=sender, now=timezone.now()).user == bob
    assert AuditEntry.objects.filter(action="user.imported").count() == 2


def test_import_users_twice_adds_nothing(tmp_path: Path) -> None:
    """And an existing user keeps the owner's later changes."""
    path = tmp_path / "user.yml"
    path.write_text(USER_YML, encoding="utf-8")
    run("import_users", str(path))
    User.objects.update(only_listed=True)
    assert "= ann: nothing new" in run("import_users", str(path))
    assert not User.objects.filter(only_listed=False).exists()
    assert AuditEntry.objects.count() == 2


def test_import_users_dry_run_shows_and_changes_nothing(tmp_path: Path) -> None:
    """The same lines, an empty database."""
    path = tmp_path / "user.yml"
    path.write_text(USER_YML, encoding="utf-8")
    text = run("import_users", str(path), "--dry-run")
    assert "+ ann: im:42, im:43" in text
    assert "nothing was changed" in text
    assert not User.objects.exists()
    assert not AuditEntry.objects.exists()


def test_import_users_only_listed_opens_nothing(tmp_path: Path) -> None:
    """The careful way to read the same file."""
    path = tmp_path / "user.yml"
    path.write_text(USER_YML, encoding="utf-8")
    assert "open to everyone" not in run("import_users", str(path), "--only-listed")
    assert not User.objects.filter(only_listed=False).exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("users: 3", "expected a list"),
        ("- 3", "user 1: expected name"),
        ("- im: []", "user 1: a name or an id"),
        ("- {name: Ann, im: 42}", "im must be a list"),
        ("- {name: Ann, im: [[42]]}", "im must be a list"),
        ("- {name: Ann, im: ['telegram:@ann']}", "numeric id"),
        ("- {name: Ann, email: ['ann']}", "e-mail address"),
        ("- {name: Ann}\n- {name: Ann}", "two users have the id 'Ann'"),
        ("{", "not YAML"),
        ("!!python/object/apply:os.system [id]", "not YAML"),
        ("", "expected a list"),
    ],
)
def test_import_users_names_the_error_and_changes_nothing(
    tmp_path: Path, text: str, message: str
) -> None:
    """The place in the file, in words."""
    path = tmp_path / "user.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match=message):
        run("import_users", str(path))
    with pytest.raises(CommandError, match="cannot read"):
        run("import_users", str(tmp_path / "missing.yml"))
    assert not User.objects.exists()
