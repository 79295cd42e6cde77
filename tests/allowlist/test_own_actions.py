"""Actions of people on their own account are audited in the same transaction."""

from datetime import timedelta
from unittest.mock import patch

import pytest
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

from allowlist import audit, sign_in
from allowlist.models import AuditEntry, LinkCode, SignInLink
from core.models import User

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture
def ann(db: None) -> User:
    """Return a user with a password."""
    user = User(username="ann", display_name="Ann")
    user.set_password("correct horse")
    user.save()
    return user


def entries(action: str) -> list[AuditEntry]:
    """Return the audit of one action."""
    return list(AuditEntry.objects.filter(action=action).order_by("id"))


def test_a_sign_in_by_password_and_by_link_is_audited(ann: User) -> None:
    """With user and method; a wrong password is none."""
    Client().post("/sign-in", {"username": "ann", "password": "wrong"})
    Client().post("/sign-in", {"username": "ann", "password": "correct horse"})
    Client().post(f"/sign-in/{sign_in.create(user=ann, now=timezone.now())}")
    assert [entry.data["how"] for entry in entries("sign_in")] == ["password", "link"]
    assert {entry.actor for entry in entries("sign_in")} == {f"user:{ann.pk} Ann"}
    assert audit.check().broken is None


def test_a_sign_in_that_cannot_be_audited_does_not_happen(ann: User) -> None:
    """One transaction: neither a session nor a used link is left."""
    token = sign_in.create(user=ann, now=timezone.now())
    full = patch.object(audit, "record", side_effect=DatabaseError("the disk is full"))
    with full, pytest.raises(DatabaseError):
        Client().post(f"/sign-in/{token}")
    assert not Session.objects.exists()
    assert SignInLink.objects.get().used_at is None


@pytest.mark.parametrize("why", ["used", "expired", "not active"])
def test_a_link_that_is_used_again_or_too_late_is_refused_and_audited_three_times(
    ann: User, why: str
) -> None:
    """Bounded for any number of openings; an unknown token is not audited."""
    now = timezone.now()
    token = sign_in.create(user=ann, now=now - timedelta(hours=2 if why == "expired" else 0))
    if why == "used":
        assert Client().post(f"/sign-in/{token}").status_code == 302
    if why == "not active":
        User.objects.update(is_active=False)
    for _ in range(5):
        browser = Client()
        assert browser.get(f"/sign-in/{token}").status_code == 403
        assert browser.post(f"/sign-in/{token}").status_code == 403
        assert "_auth_user_id" not in browser.session
    assert [entry.data["why"] for entry in entries("sign_in.refused")] == [why] * 3
    assert Client().post(f"/sign-in/{'x' * 43}").status_code == 403
    assert len(entries("sign_in.refused")) == 3


def test_a_link_leads_where_its_address_says_and_to_no_foreign_address(ann: User) -> None:
    """Through the page with the button."""
    for wanted, there in (("/admin/", "/admin/"), ("https://evil.example/", "/")):
        token = sign_in.create(user=ann, now=timezone.now())
        shown = Client().get(f"/sign-in/{token}", {"next": wanted}).content.decode()
        assert f'name="next" value="{there}"' in shown
        answer = Client().post(f"/sign-in/{token}", {"next": wanted})
        assert answer.headers["Location"] == there


def test_a_setting_of_a_person_is_audited_with_before_and_after(ann: User) -> None:
    """Only when it changes."""
    page = Client()
    page.force_login(ann)
    for wanted in (False, False, True):
        page.post("/chat/settings", {"show_progress": wanted}, content_type=JSON)
    changes = [entry.data["show_progress"] for entry in entries("setting.changed")]
    assert changes == [[True, False], [False, True]]


def test_the_web_chat_makes_a_link_code(ann: User, settings: object) -> None:
    """For signed-in users; audited; a hash is kept; not where the owner disabled it."""
    page = Client()
    assert page.post("/chat/link-code", {}, content_type=JSON).status_code == 401
    page.force_login(ann)
    made = page.post("/chat/link-code", {}, content_type=JSON).json()
    assert made["minutes"] == 10
    code = made["command"].removeprefix("/link ")
    assert len(code) == 9
    assert LinkCode.objects.get().user == ann
    assert [entry.data["via"] for entry in entries("link.made")] == ["web chat"]
    assert page.get("/").content.decode().count("make-link-code") == 1
    settings.LINK_CODES = "owners"  # type: ignore[attr-defined]  # pytest-django's own object
    refused = page.post("/chat/link-code", {}, content_type=JSON)
    assert refused.status_code == 400
    assert "disabled" in refused.json()["error"]
    assert "make-link-code" not in page.get("/").content.decode()
