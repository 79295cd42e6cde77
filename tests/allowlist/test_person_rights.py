"""[A6] [A10] RQ19: a person's page in the admin, by each kind of user and of person."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from allowlist import revocation
from allowlist.models import AuditEntry
from core.database import dependents
from core.models import ChannelAccount, ChannelIdentity, ChatSession, InboundMessage, Run, User
from tests.allowlist.conftest import MakeUser, identities
from tests.channels_app.schedules.making import made as made_schedule

pytestmark = pytest.mark.django_db
NEW = "correct horse battery"
ALL = ("view_user", "change_user", "delete_user", "add_user")


@pytest.fixture
def make(make_user: MakeUser) -> Any:
    """Return ``make("name", is_owner=True)``: a person with these fields."""

    def made(name: str, **fields: Any) -> User:
        user = make_user(name)
        User.objects.filter(pk=user.pk).update(**fields)
        user.refresh_from_db()
        return user

    return made


def signed_in(user: User) -> Client:
    """Return a browser of a member of staff who may do everything with users."""
    User.objects.filter(pk=user.pk).update(is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=ALL))
    browser = Client()
    browser.force_login(User.objects.get(pk=user.pk))
    return browser


@pytest.fixture
def staff(make: Any) -> Client:
    """Return the browser of a member of staff."""
    return signed_in(make("sam"))


@pytest.fixture
def owner(make: Any) -> Client:
    """Return the browser of an owner who is no superuser."""
    return signed_in(make("olga", is_owner=True))


@pytest.fixture
def root(make: Any) -> Client:
    """Return the browser of a superuser."""
    return signed_in(make("root", is_superuser=True))


def address(user: User, page: str = "change") -> str:
    """Return the address of a page of a person."""
    return f"/admin/core/user/{user.pk}/{page}/"


def change(browser: Client, user: User, **fields: Any) -> int:
    """Save a person's form; return the status. A box that is not named is left out."""
    form: dict[str, Any] = {"username": user.username, **fields}
    return browser.post(address(user), form | identities()).status_code


def now(user: User) -> User:
    """Return the row as the database has it."""
    return User.objects.get(pk=user.pk)


def actions() -> list[str]:
    """Return the actions of the audit."""
    return [*AuditEntry.objects.order_by("pk").values_list("action", flat=True)]


@pytest.mark.parametrize("right", ["", "is_staff", "is_owner", "is_superuser"])
@pytest.mark.parametrize("by", ["staff", "owner", "root"])
def test_a_person_with_rights_is_changed_and_deleted_by_superusers_only(
    by: str, right: str, make: Any, request: pytest.FixtureRequest
) -> None:
    browser = request.getfixturevalue(by)
    ann = make("ann", **({right: True} if right else {}))
    may = by == "root" or not right
    kept = {right: "on"} if right else {}
    assert change(browser, ann, display_name="Ann", is_active="on", **kept) == (302 if may else 403)
    assert now(ann).display_name == ("Ann" if may else "")
    status = browser.post(address(ann, "delete"), {"post": "yes"}).status_code
    assert (status, User.objects.filter(pk=ann.pk).exists()) == (302 if may else 403, not may)


def test_a_superuser_neither_deletes_nor_locks_out_themselves(root: Client) -> None:
    me = User.objects.get(username="root")
    assert root.post(address(me, "delete"), {"post": "yes"}).status_code == 403
    assert address(me, "delete") not in root.get(address(me, "change")).content.decode()
    chosen = {"action": "delete_selected", "_selected_action": [str(me.pk)]}
    assert "your own account" in root.post("/admin/core/user/", chosen).content.decode()
    assert root.post("/admin/core/user/", {**chosen, "post": "yes"}).status_code == 403
    assert change(root, me, display_name="Root") == 302
    found = now(me)
    assert (found.display_name, found.is_active) == ("Root", True)
    assert (found.is_staff, found.is_superuser) == (True, True)


def test_deletion_ends_the_runs_of_a_person_first(
    root: Client, make: Any, telegram: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should it be cut off, nothing is answered to them meanwhile."""
    run = run_of(make("ann"), telegram)
    seen: list[tuple[bool, bool]] = []

    def note(obj: User) -> None:
        run.refresh_from_db()
        seen.append((now(obj).is_active, run.cancel_requested_at is not None))

    monkeypatch.setattr(dependents, "remove_before", note)
    root.post(address(run.user, "delete"), {"post": "yes"})
    assert seen == [(False, True)]


def run_of(user: User, account: ChannelAccount) -> Run:
    """Return a run of a person that waits."""
    session = ChatSession.objects.create(
        user=user, account=account, chat=user.username, last_message_at=timezone.now()
    )
    return Run.objects.create(session=session, user=user, origin="telegram", state="queued")


@pytest.mark.parametrize("by", ["staff", "owner", "root"])
def test_rights_are_given_by_superusers_and_access_by_owners(
    by: str, make: Any, request: pytest.FixtureRequest
) -> None:
    browser, ann = request.getfixturevalue(by), make("ann", only_listed=True)
    group, right = Group.objects.create(name="Helpers"), Permission.objects.all()[0]
    given = dict.fromkeys(("is_staff", "is_superuser", "is_owner"), "on")
    many = {"groups": [str(group.pk)], "user_permissions": [str(right.pk)]}
    assert change(browser, ann, display_name="Ann", **given, **many) == 302
    found, is_root = now(ann), by == "root"
    assert (found.is_staff, found.is_superuser, found.is_owner) == (is_root,) * 3
    assert (found.groups.count(), found.user_permissions.count()) == ((1, 1) if is_root else (0, 0))
    # Both boxes were left out: an owner has taken the person's access away.
    assert (found.only_listed, found.is_active) == ((True, True) if by == "staff" else (False,) * 2)
    if is_root:
        entry = AuditEntry.objects.get(action="user.rights_set")
        assert entry.data == {"groups": ["Helpers"], "user_permissions": [str(right)]}
        assert f"user:{ann.pk}" in entry.subject
    else:
        assert "user.rights_set" not in actions()
    assert "user.changed" in actions()


def test_only_changed_rights_are_recorded_in_order(root: Client, make: Any) -> None:
    ann = make("ann")
    groups = [Group.objects.create(name=each) for each in ("b", "a")]
    chosen = {"groups": [str(each.pk) for each in groups]}
    change(root, ann, is_active="on", **chosen)
    change(root, ann, is_active="on", display_name="Ann", **chosen)
    [entry] = AuditEntry.objects.filter(action="user.rights_set")
    assert entry.data == {"groups": ["a", "b"]}


def test_single_permissions_are_shown_to_superusers_only(
    staff: Client, root: Client, make: Any
) -> None:
    ann = make("ann")
    shown = [
        "Single permissions" in each.get(address(ann)).content.decode() for each in (staff, root)
    ]
    assert shown == [False, True]
    for browser in (staff, root):
        assert "Access" in browser.get(address(ann)).content.decode()


@pytest.mark.parametrize("by", ["staff", "owner", "root"])
def test_a_password_and_a_sign_in_link_are_made_by_superusers_only(
    by: str, make: Any, request: pytest.FixtureRequest
) -> None:
    """Both let their holder in as that person; each is recorded, without the secret."""
    browser, ann = request.getfixturevalue(by), make("ann")
    form = {"password1": NEW, "password2": NEW, "usable_password": "true"}
    is_root = by == "root"
    assert browser.get(address(ann, "password")).status_code == (200 if is_root else 403)
    assert browser.post(address(ann, "password"), form).status_code == (302 if is_root else 403)
    assert now(ann).check_password(NEW) == is_root
    answer = browser.post(address(ann, "sign-in-link"))
    assert answer.status_code == (200 if is_root else 403)
    assert actions() == (["user.password_set", "user.sign_in_link"] if is_root else [])
    if is_root:
        assert all(f"user:{ann.pk}" in each.subject for each in AuditEntry.objects.all())
        text = answer.content.decode()
        assert f"Sign-in link of {ann}" in text
        link = text.partition("http://testserver/sign-in/")[2].partition("<")[0].partition('"')[0]
        guest = Client()
        guest.post(f"/sign-in/{link.strip()}")
        assert guest.session.get("_auth_user_id") == str(ann.pk)
        assert "horse" not in str(AuditEntry.objects.values())
        assert link not in str(AuditEntry.objects.values())


def test_a_new_password_ends_the_sockets_of_that_persons_sessions(
    root: Client, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, checked = make("ann"), []
    monkeypatch.setattr(revocation, "check_sessions", lambda *, user_id: checked.append(user_id))
    for second in ("other", NEW):
        form = {"password1": NEW, "password2": second, "usable_password": "true"}
        root.post(address(ann, "password"), form)
    assert checked == [ann.pk]


def test_the_page_of_a_refused_person_offers_no_change(staff: Client, make: Any) -> None:
    """Their data is shown, and no button to save it."""
    olga = make("olga", is_owner=True)
    assert "Save and continue" not in staff.get(address(olga)).content.decode()
    assert "Save and continue" in staff.get(address(make("ann"))).content.decode()


def test_a_password_that_was_not_set_is_not_recorded(root: Client, make: Any) -> None:
    ann = make("ann")
    wrong = {"password1": NEW, "password2": "other", "usable_password": "true"}
    assert root.post(address(ann, "password"), wrong).status_code == 200
    assert root.get(address(ann, "password")).status_code == 200
    assert actions() == []


def test_a_sign_in_link_is_made_by_a_press_and_for_active_people_only(
    root: Client, make: Any
) -> None:
    gone, ann = make("gone", is_active=False), make("ann")
    assert root.post(address(gone, "sign-in-link")).status_code == 404
    assert root.get(address(ann, "sign-in-link")).status_code == 405
    assert actions() == []


def test_a_new_person_has_no_password(root: Client) -> None:
    form = {"username": "new", "display_name": "New", "only_listed": "on"} | identities()
    assert root.post("/admin/core/user/add/", form).status_code == 302
    made = User.objects.get(username="new")
    assert (made.has_usable_password(), made.only_listed, made.is_active) == (False, True, True)
    User.objects.filter(pk=made.pk).update(password="kept")
    assert change(root, made, display_name="Newer", is_active="on") == 302
    assert now(made).password == "kept"


@pytest.mark.parametrize("is_over", [True, False])
def test_deactivation_ends_runs_and_nothing_else_does(
    is_over: bool,
    root: Client,
    make: Any,
    telegram: ChannelAccount,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The questions first: a decision locks its question before the audit."""
    run = run_of(make("ann"), telegram)
    asked: list[int] = []
    monkeypatch.setattr(revocation, "end_questions", lambda *, user_id: asked.append(user_id))
    left = {} if is_over else {"is_active": "on"}
    assert change(root, run.user, display_name="Ann", **left) == 302
    run.refresh_from_db()
    assert (run.cancel_requested_at is not None) == is_over
    assert {*asked} == ({run.user_id} if is_over else set())
    if is_over:  # once: later runs have a cause of their own
        Run.objects.update(cancel_requested_at=None)
        assert change(root, run.user, display_name="Anna") == 302
        run.refresh_from_db()
        assert run.cancel_requested_at is None


@pytest.mark.parametrize("ends", ["person", "identity"])
def test_the_audit_is_locked_after_the_schedules_that_end(
    ends: str, root: Client, make: Any, telegram: ChannelAccount
) -> None:
    """An owner who pauses one of them at the same moment locks it first, and then the audit: in
    another order each would wait for the other, and PostgreSQL ends one of them.
    """
    ann = make("ann")
    identity = ChannelIdentity.objects.create(user=ann, kind="im", account=telegram, value="41")
    session = ChatSession.objects.create(user=ann, account=telegram, chat="41")
    schedule = made_schedule(session, now=timezone.now())
    row = {"id": str(identity.pk), "user": str(ann.pk), "kind": "im", "account": str(telegram.pk)}
    rows = identities(row | {"value": "41", "DELETE": "on"}, initial=1)
    person = {"username": "ann", "only_listed": "on", "is_active": "on"} | rows
    with CaptureQueriesContext(connection) as found:
        if ends == "person":
            assert change(root, ann, display_name="Ann") == 302
        else:
            assert root.post(address(ann), person).status_code == 302
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("paused", "grant")
    said = [each["sql"] for each in found]
    audited = [at for at, sql in enumerate(said) if 'INSERT INTO "allowlist_auditentry"' in sql]
    paused = [at for at, sql in enumerate(said) if 'UPDATE "core_schedule"' in sql]
    assert paused
    assert min(audited) > max(paused)


def test_identities_that_come_change_and_go_are_recorded_and_end_their_runs(
    root: Client, make: Any, telegram: ChannelAccount
) -> None:
    ann = make("ann")
    ours = {"user": str(ann.pk), "kind": "im", "account": str(telegram.pk)}
    person = {"username": "ann", "is_active": "on", "only_listed": "on"}

    def save(*rows: dict[str, str], initial: int) -> list[tuple[str, Any]]:
        AuditEntry.objects.all()._raw_delete("default")
        form = person | identities(*rows, initial=initial)
        assert root.post(address(ann), form).status_code == 302
        found = AuditEntry.objects.filter(action__startswith="channelidentity").order_by("pk")
        return [(each.action.partition(".")[2], each.data) for each in found]

    assert (
        save(ours | {"value": "41"}, ours | {"value": "42"}, initial=0)
        == [("added", {"user": ann.pk})] * 2
    )
    first, second = ChannelIdentity.objects.order_by("pk")
    run = run_of(ann, telegram)
    message = InboundMessage.objects.create(
        account=telegram, run=run, user=ann, sender="41", received_at=timezone.now()
    )
    one, two = (
        ours | {"id": str(each.pk), "value": each.value, "channel": each.channel}
        for each in (first, second)
    )
    assert save(one, two, initial=2) == []
    run.refresh_from_db()
    assert run.cancel_requested_at is None
    assert save(one | {"value": "43"}, two, initial=2) == [
        ("changed", {"user": ann.pk, "before": str(first)})
    ]
    run.refresh_from_db()
    assert run.cancel_requested_at is not None
    Run.objects.update(cancel_requested_at=None)
    InboundMessage.objects.filter(pk=message.pk).update(sender="42")
    assert save(one | {"value": "43"}, two | {"DELETE": "on"}, initial=2) == [
        ("deleted", {"user": ann.pk})
    ]
    run.refresh_from_db()
    assert run.cancel_requested_at is not None
    assert [each.value for each in ChannelIdentity.objects.all()] == ["43"]
