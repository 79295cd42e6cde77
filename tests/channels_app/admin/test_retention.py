"""Rules of retention in the admin (X14), and the dry run beside them (X9)."""

from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from allowlist.models import AuditEntry
from channels_app.worker import retention
from core.models import ChannelAccount, ChatSession, Message, RetentionRule, User
from tests.benchmarks.year import MOST_QUERIES
from tests.channels_app.admin.conftest import errors_of, opened, page

pytestmark = pytest.mark.django_db
RULES = "/admin/core/retentionrule/"
DUE = f"{RULES}due/"


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create(username="ann", display_name="Ann")


def counted() -> int:
    """Do what a worker does with rules that are to be counted; return how many it counted."""
    for done in count():
        if not retention.count_next(now=timezone.now()):
            return done
    raise AssertionError


def shown(browser: Client) -> str:
    """Return the page of the dry run, on one line."""
    return " ".join(browser.get(DUE).content.decode().split())


def test_x14_an_owner_adds_changes_and_deletes_a_rule_with_a_trail(
    browser: Client, ann: User
) -> None:
    form = {"kind": "messages", "user": str(ann.pk), "days": "30"}
    assert browser.post(f"{RULES}add/", form).status_code == 302
    row = RetentionRule.objects.get()
    html = browser.get(RULES).content.decode()
    assert "person Ann" in html
    assert "30 days" in html
    assert browser.post(page(RetentionRule, row.pk), {**form, "days": "60"}).status_code == 302
    assert browser.post(f"{RULES}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    trail = AuditEntry.objects.filter(action__startswith="retentionrule.").order_by("id")
    assert [each.action.partition(".")[2] for each in trail] == ["added", "changed", "deleted"]
    assert trail[1].data == {"days": [30, 60]}


def test_x14_an_old_page_of_a_rule_takes_back_nothing_that_it_does_not_change(
    browser: Client, ann: User
) -> None:
    """Messages that were to be kept longer were removed. The later page's duration holds."""
    row = RetentionRule.objects.create(kind="messages", days=30)
    sent = opened(browser, row)
    RetentionRule.objects.filter(pk=row.pk).update(days=None, newest=100)
    browser.post(page(RetentionRule, row.pk), {**sent, "user": str(ann.pk)})
    row.refresh_from_db()
    assert (row.user, row.days, row.newest) == (ann, None, 100)
    browser.post(page(RetentionRule, row.pk), {**sent, "days": "60"})
    row.refresh_from_db()
    assert (row.user, row.days, row.newest) == (ann, 60, None)


def test_x14_a_rule_that_makes_no_sense_is_refused_in_words(browser: Client, ann: User) -> None:
    form = {"kind": "messages", "user": str(ann.pk), "days": "30"}
    browser.post(f"{RULES}add/", form)
    for wrong, field, words in (
        ({}, "__all__", "There is a rule for this."),
        ({"user": "", "newest": "5"}, "__all__", "instead of days"),
        ({"user": "", "days": "1"}, "days", "greater than or equal to 2"),
        ({"kind": "audit"}, "__all__", "A rule for the audit is for everyone."),
    ):
        errors = errors_of(browser.post(f"{RULES}add/", {**form, **wrong}))
        assert words in errors[field]
    assert RetentionRule.objects.count() == 1


def test_x14_staff_without_the_owner_role_change_nothing(client: Client) -> None:
    """With every permission on the table, they may look; without one, not even that."""
    row = RetentionRule.objects.create(kind="messages", days=30)
    verbs = [f"{verb}_retentionrule" for verb in ("view", "add", "change", "delete")]
    sam = User.objects.create(username="sam", is_staff=True)
    client.force_login(sam)
    assert client.get(DUE).status_code == client.post(DUE).status_code == 403
    sam.user_permissions.set(Permission.objects.filter(codename__in=verbs))
    client.force_login(User.objects.get(pk=sam.pk))
    assert client.get(RULES).status_code == client.get(DUE).status_code == 200
    assert "Count again" not in shown(client)
    assert client.post(DUE).status_code == 403
    form = {"kind": "files", "days": "2"}
    assert client.post(f"{RULES}add/", form).status_code == 403
    assert client.post(page(RetentionRule, row.pk), {**form, "kind": "messages"}).status_code == 403
    assert client.post(f"{RULES}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    client.post(RULES, chosen)
    assert list(RetentionRule.objects.values_list("kind", "days")) == [("messages", 30)]


def test_x9_the_page_beside_the_rules_shows_the_rows_that_a_worker_counted(
    browser: Client, ann: User, telegram: ChannelAccount
) -> None:
    """With their time; "for ever" is not counted."""
    assert DUE in browser.get(RULES).content.decode()
    assert "all is kept for ever" in shown(browser)
    session = ChatSession.objects.create(user=ann, account=telegram, chat="42")
    for _ in range(3):
        Message.objects.create(session=session, role="user", text="words")
    Message.objects.update(created_at=timezone.now() - timedelta(days=40))
    rule = RetentionRule.objects.create(kind="messages", user=ann, days=30)
    RetentionRule.objects.create(kind="files", user=ann)
    html = shown(browser)
    assert "to be counted" in html
    assert "A worker is counting" in html
    assert counted() == 1
    html = shown(browser)
    assert "3 messages, 0 received messages, 0 runs" in html
    assert f"counted {timezone.now():%Y-%m-%d}" in html
    assert "A worker is counting" not in html
    assert page(RetentionRule, rule.pk) in html
    assert Message.objects.count() == 3


def test_x9_rules_are_counted_again_by_a_button_and_after_each_change(
    browser: Client, ann: User
) -> None:
    """One may be about rows of another."""
    form = {"kind": "messages", "user": str(ann.pk), "days": "30"}
    row = RetentionRule.objects.create(kind="messages", days=60)
    steps: tuple[Callable[[], object], ...] = (
        lambda: browser.post(DUE),
        lambda: browser.post(f"{RULES}add/", form),
        lambda: browser.post(page(RetentionRule, row.pk), {"kind": "messages", "days": "61"}),
        lambda: browser.post(f"{RULES}{row.pk}/delete/", {"post": "yes"}),
    )
    counted()
    for step in steps:
        assert "to be counted" not in shown(browser)
        step()
        assert "to be counted" in shown(browser)
        assert counted() == RetentionRule.objects.count()


def test_x9_more_rules_cause_no_more_queries(browser: Client, ann: User) -> None:
    """Counted or not."""

    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            shown(browser)
        return len(asked)

    RetentionRule.objects.create(kind="messages", days=30)
    shown(browser)
    few = queries()
    for number in range(9):
        user = User.objects.create(username=f"person {number}")
        RetentionRule.objects.create(kind="messages", user=user, days=30 + number)
    assert queries() == few <= MOST_QUERIES
    assert counted() == 10
    assert queries() == few
