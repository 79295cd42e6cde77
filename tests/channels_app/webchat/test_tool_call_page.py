"""``/tool-calls/<id>``: a call is decided on a channel without buttons (V68)."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from channels_app.tool_requests import asking, deciding
from core.conversations.tool_calls import Asked
from core.models import ChannelAccount, ChatSession, Run, ToolCall, ToolGrant, User

pytestmark = pytest.mark.django_db
EVIL = "<script>alert('x')</script>\u202egnp"


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create(username="owner", is_owner=True, is_staff=True)


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create(username="ann", display_name="Ann")


def pause(person: User, *, of_person: bool = False, arguments: Any = None) -> ToolCall:
    account, _ = ChannelAccount.objects.get_or_create(channel="memory", name="mem")
    session, _ = ChatSession.objects.get_or_create(user=person, account=account, chat="42")
    run = Run.objects.create(session=session, user=person, origin="memory", state="succeeded")
    given = json.dumps({"to": "bob"} if arguments is None else arguments)
    asking.ask(run=run, messages=[], questions=[Asked("1", "mail", given, of_person=of_person)])
    return ToolCall.objects.get(run=run)


def at(call: ToolCall) -> str:
    return reverse("tool-call", args=[call.public_id])


def signed_in(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def press(browser: Client, call: ToolCall, choice: str = "once", **more: str) -> Any:
    return browser.post(at(call), {"digest": call.digest, "choice": choice, **more})


def state(call: ToolCall) -> tuple[str, str]:
    call.refresh_from_db()
    return call.state, call.scope


def test_v68_a_person_decides_on_the_page_after_the_sign_in(owner: User, ann: User) -> None:
    """Three ways; the second press gets the first decision."""
    call = pause(ann, of_person=True)
    before = Client().get(at(call))
    assert before.headers["Location"] == f"/sign-in?next={at(call)}"
    assert press(Client(), call).status_code == 302
    browser = signed_in(ann)
    html = browser.get(at(call)).content.decode()
    assert [each for each in ("once", "always", "deny", "hour") if f'value="{each}"' in html] == [
        "once",
        "always",
        "deny",
    ]
    assert "to: bob" in html
    assert "/admin/" not in html
    assert deciding.TEXTS["allowed"] in press(browser, call, "always").content.decode()
    assert state(call) == ("allowed", "always")
    assert ToolGrant.objects.get().user == ann
    again = press(browser, call, "deny").content.decode()
    assert deciding.TEXTS["already"] in again
    assert 'name="choice"' not in again
    assert deciding.TEXTS["allowed"] in browser.get(at(call)).content.decode()


def test_v68_the_page_of_an_owner_leads_to_the_whole_call(owner: User, ann: User) -> None:
    call = pause(ann)
    html = signed_in(owner).get(at(call)).content.decode()
    assert 'value="hour"' in html
    assert reverse("admin:core_toolcall_decide", args=[call.pk]) in html
    press(signed_in(owner), call, "deny")
    assert state(call) == ("denied", "")


def test_v68_others_get_404_as_for_no_call(owner: User, ann: User) -> None:
    """The person who asked, a guest, staff, and an owner for a person's own yes."""
    of_owner, own = pause(ann), pause(ann, of_person=True)
    boss = User.objects.create(username="boss", is_staff=True, is_superuser=True)
    guest = User.objects.create(username="guest")
    for user, call in (
        (ann, of_owner),
        (guest, of_owner),
        (guest, own),
        (boss, of_owner),
        (owner, own),
    ):
        assert signed_in(user).get(at(call)).status_code == 404
        assert press(signed_in(user), call).status_code == 404
    for name in ("x" * 22, "1", "..%2f"):
        assert signed_in(owner).get(f"/tool-calls/{name}").status_code == 404
    assert {*ToolCall.objects.values_list("state", flat=True)} == {"waiting"}


def test_v68_wrong_posts_old_and_late_pages_decide_nothing(owner: User, ann: User) -> None:
    call, late = pause(ann), pause(ann)
    browser = signed_in(owner)
    for choice in ("", "edit", "edited", "promote"):
        assert press(browser, call, choice).status_code == 400
    for digest in ("", "0" * 64, late.digest[:8]):
        html = press(browser, call, digest=digest).content.decode()
        assert deciding.TEXTS["changed"] in html
        assert 'value="once"' in html
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    assert press(strict, call).status_code == 403
    assert browser.get(at(call), {"choice": "once", "digest": call.digest}).status_code == 200
    ToolCall.objects.filter(pk=late.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert deciding.TEXTS["expired"] in browser.get(at(late)).content.decode()
    assert deciding.TEXTS["expired"] in press(browser, late).content.decode()
    assert state(call) == ("waiting", "")


def test_v64_foreign_texts_are_never_markup_on_the_page(owner: User, ann: User) -> None:
    """And a megabyte of them makes a small page."""
    User.objects.filter(pk=ann.pk).update(display_name=EVIL)
    call = pause(ann, arguments={EVIL: EVIL, "long": "x" * 1_000_000})
    ToolCall.objects.filter(pk=call.pk).update(tool=EVIL)
    html = signed_in(owner).get(at(call)).content.decode()
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert len(html) < 20_000
