"""Allowed tools and rules of tools in the admin (V65, V66)."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allowlist.models import AuditEntry
from core.models import Assistant, ChannelAccount, ChatSession, Run, ToolGrant, ToolRule, User
from core.providers import catalogue
from core.tools import rules
from core.tools.rules import Where
from tests.channels_app.admin.conftest import errors_of, messages_of, opened, page

pytestmark = pytest.mark.django_db
GRANTS, RULES = "/admin/core/toolgrant/", "/admin/core/toolrule/"


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create(username="ann", display_name="Ann")


def in_role(client: Client, *permissions: str, **more: Any) -> Client:
    """Sign a member of staff with these permissions in."""
    sam = User.objects.create(username="sam", is_staff=True, **more)
    sam.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(User.objects.get(pk=sam.pk))
    return client


def test_v65_an_allowed_tool_is_revoked_with_a_trail(
    browser: Client, ann: User, telegram: ChannelAccount
) -> None:
    """The list says for whom, where, until when; the next call asks again."""
    session = ChatSession.objects.create(user=ann, account=telegram, chat="42", title="Bees")
    run = Run.objects.create(session=session, user=ann, origin="telegram")
    soon = timezone.now() + timedelta(hours=1)
    always = ToolGrant.objects.create(tool="web_fetch", user=ann)
    ToolGrant.objects.create(tool="send_mail", user=ann, session=session, until=soon)
    over = timezone.now() - timedelta(hours=1)
    ToolGrant.objects.create(tool="old", user=ann, session=session, until=over)
    html = browser.get(GRANTS).content.decode()
    for words in ("web_fetch", "everywhere", "send_mail", "Bees", "holds", "over"):
        assert words in html
    assert "delete_selected" not in html
    form = {"action": "revoke", "_selected_action": [always.pk]}
    said = messages_of(browser.post(GRANTS, form, follow=True))
    assert said == "1 revoked: the next call asks again."
    assert not ToolGrant.objects.filter(pk=always.pk).exists()
    [entry] = AuditEntry.objects.filter(action="toolgrant.deleted")
    assert "web_fetch for Ann" in entry.subject
    assert run.tool_calls.count() == 0


def test_v65_allowed_tools_are_neither_made_nor_changed_by_hand(browser: Client, ann: User) -> None:
    row = ToolGrant.objects.create(tool="web_fetch", user=ann)
    assert browser.get(f"{GRANTS}add/").status_code == 403
    assert browser.post(f"{GRANTS}add/", {"tool": "x", "user": ann.pk}).status_code == 403
    assert browser.post(page(ToolGrant, row.pk), {"tool": "x"}).status_code == 403
    assert browser.post(f"{GRANTS}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    assert AuditEntry.objects.filter(action="toolgrant.deleted").exists()


def test_v66_an_old_page_of_a_rule_takes_back_nothing_that_it_does_not_change(
    browser: Client, ann: User, telegram: ChannelAccount
) -> None:
    """The tool was offered again, or asked no more."""
    row = ToolRule.objects.create(tool="current_time", ask="never")
    sent = opened(browser, row)
    ToolRule.objects.filter(pk=row.pk).update(ask="off", account=telegram)
    group = browser.post(page(ToolRule, row.pk), {**sent, "user": str(ann.pk), "chat": "-9"})
    assert group.status_code == 302, errors_of(group)
    row.refresh_from_db()
    assert (row.ask, row.user, row.account, row.chat) == ("off", ann, telegram, "-9")
    other = ToolRule.objects.create(tool="current_time", ask="always")
    sent = opened(browser, other)
    ToolRule.objects.filter(pk=other.pk).update(account=telegram, chat="-9")
    same = browser.post(page(ToolRule, other.pk), {**sent, "user": str(ann.pk)})
    assert "There is a rule for this tool" in errors_of(same)["tool"]


def test_v65_staff_without_the_owner_role_change_nothing(client: Client, ann: User) -> None:
    """With every permission on both tables."""
    row = ToolGrant.objects.create(tool="web_fetch", user=ann)
    rule = ToolRule.objects.create(tool="current_time", ask="always")
    verbs = ("view", "add", "change", "delete")
    names = [f"{verb}_{table}" for verb in verbs for table in ("toolgrant", "toolrule")]
    staff = in_role(client, *names)
    for address, pk in ((GRANTS, row.pk), (RULES, rule.pk)):
        assert staff.get(address).status_code == 200
        for action in ("revoke", "delete_selected"):
            staff.post(address, {"action": action, "_selected_action": [pk], "post": "yes"})
        assert staff.post(f"{address}{pk}/delete/", {"post": "yes"}).status_code == 403
    form = {"tool": "current_time", "ask": "never"}
    assert staff.post(f"{RULES}add/", form).status_code == 403
    assert staff.post(page(ToolRule, rule.pk), form).status_code == 403
    assert ToolGrant.objects.filter(pk=row.pk).exists()
    assert list(ToolRule.objects.values_list("ask", flat=True)) == ["always"]


def test_v66_a_rule_holds_from_the_next_turn_and_is_in_the_audit(
    browser: Client, ann: User
) -> None:
    """For a tool of the list; changed, and deleted."""
    html = browser.get(f"{RULES}add/").content.decode()
    assert '<option value="current_time">current_time (never)</option>' in html
    form = {"tool": "current_time", "ask": "always", "user": str(ann.pk), "chat": ""}
    assert browser.post(f"{RULES}add/", form).status_code == 302
    row = ToolRule.objects.get()
    place = Where(ann.pk, 0, "", 0)
    found = rules.rule_of(catalogue.current(), place, "current_time")
    assert found is not None
    assert found.ask == "always"
    assert browser.post(page(ToolRule, row.pk), {**form, "ask": "off"}).status_code == 302
    found = rules.rule_of(catalogue.current(), place, "current_time")
    assert found is not None
    assert found.ask == "off"
    html = browser.get(RULES).content.decode()
    assert "do not offer the tool" in html
    assert "person Ann" in html
    assert browser.post(f"{RULES}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    assert rules.rule_of(catalogue.current(), place, "current_time") is None
    trail = AuditEntry.objects.filter(action__startswith="toolrule.").order_by("id")
    assert [each.action for each in trail] == [
        f"toolrule.{each}" for each in ("added", "changed", "deleted")
    ]
    assert trail[1].data["ask"] == ["always", "off"]


def test_v66_a_rule_that_says_nothing_is_refused_with_a_reason(
    browser: Client, telegram: ChannelAccount
) -> None:
    """An unknown tool, a group without its account, a second one for the same."""
    fine = {"tool": "current_time", "ask": "always", "account": str(telegram.pk), "chat": "-100"}
    wrong = {
        "tool": {**fine, "tool": "rm_rf"},
        "ask": {**fine, "ask": "maybe"},
        "account": {"tool": "current_time", "ask": "always", "chat": "-100"},
    }
    for name, form in wrong.items():
        assert name in errors_of(browser.post(f"{RULES}add/", form))
    assert browser.post(f"{RULES}add/", fine).status_code == 302
    again = browser.post(f"{RULES}add/", {**fine, "ask": "never"})
    assert list(errors_of(again)) == ["tool"], "and no constraint of the database beside it"
    assert "There is a rule for this tool and target." in errors_of(again)["tool"]
    assert browser.post(f"{RULES}add/", {**fine, "chat": "-200"}).status_code == 302
    assert "group -200 on account" in browser.get(RULES).content.decode()


def test_v66_the_page_says_which_rule_holds(
    browser: Client, ann: User, telegram: ChannelAccount, default: Assistant
) -> None:
    """The same function as a turn's: person before group before account before assistant."""
    why = reverse("admin:core_toolrule_why")

    def said(**fields: Any) -> str:
        answer = browser.get(why, {"tool": "current_time", **fields})
        return str(answer.context["answer"]["why"])

    assert browser.get(why).status_code == 200
    assert said() == rules.WHY["declared"]
    place: dict[str, Any] = {"person": "ann", "account": telegram.pk, "group": "-100"}
    for given, reason in (
        ({}, "tool"),
        ({"assistant": default}, "assistant"),
        ({"account": telegram}, "account"),
        ({"account": telegram, "chat": "-100"}, "chat"),
        ({"user": ann}, "person"),
    ):
        row = ToolRule.objects.create(tool="current_time", ask="always", **given)
        assert said(**place) == rules.WHY[reason]
        html = browser.get(why, {"tool": "current_time", **place}).content.decode()
        assert page(ToolRule, row.pk) in html
    assert said() == rules.WHY["assistant"]
    ToolGrant.objects.create(tool="current_time", user=ann)
    html = browser.get(why, {"tool": "current_time", **place}).content.decode()
    assert "Ann has it always allowed" in html
    for wrong in ({"person": "nobody"}, {"group": "-1"}, {"tool": "rm_rf"}):
        assert "answer" not in browser.get(why, {"tool": "current_time", **wrong}).context


def test_v66_staff_that_may_not_see_rules_get_no_explanation(client: Client) -> None:
    staff = in_role(client, "view_toolcall")
    assert staff.get(reverse("admin:core_toolrule_why")).status_code == 403
