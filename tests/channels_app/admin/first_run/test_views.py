"""The pages of the first run: their owner, the sign-in that leads there, the steps left."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from allowlist import sign_in as links
from allowlist.models import AuditEntry
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake.inbound import receive_personal
from channels_app.owner import setup_steps
from core.conversations.inbox import Draft
from core.models import (
    Assistant,
    ChannelIdentity,
    Installation,
    LanguageModel,
    Message,
    ModelProvider,
    Run,
    User,
)
from tests.channels_app.admin.first_run.conftest import HOST, person

PAGES = ("", "model", "message", "phone", "phone/state")


def by_link(user: User, **more: str) -> str:
    """Sign a new browser in by a link; return where that leads."""
    token = links.create(user=user, now=timezone.now(), ttl=timedelta(hours=1))
    answer = Client(HTTP_HOST=HOST).post(f"/sign-in/{token}", more)
    assert answer.status_code == 302
    return answer["Location"]


def own_model() -> LanguageModel:
    """Store a model of the owner's at the head of the chain."""
    provider = ModelProvider.objects.create(name="Mine", base_url="http://127.0.0.1:9/v1")
    return LanguageModel.objects.create(provider=provider, name="mine")


def written_by(user: User) -> Run:
    """Store a message of ``user``."""
    draft = Draft(account=builtin_account("web"), text="hello")
    run = receive_personal(user=user, draft=draft, session_id="", now=timezone.now()).run
    assert run is not None
    return run


# Where the first sign-in leads


def test_the_first_sign_in_of_the_owner_leads_to_the_first_run_once(owner: User) -> None:
    assert by_link(owner) == "/first-run/"
    client = Client(HTTP_HOST=HOST)
    client.force_login(owner)
    assert client.get("/first-run/")["Location"] == "/first-run/model"
    assert by_link(owner) == "/"


def test_a_password_leads_there_too_and_another_address_wins(owner: User) -> None:
    fields = {"username": "owner", "password": "correct horse"}
    client = Client(HTTP_HOST=HOST)
    assert client.post("/sign-in", {**fields, "next": "/c/abc"})["Location"] == "/c/abc"
    assert client.post("/sign-in", fields)["Location"] == "/first-run/"


def test_an_upgraded_installation_is_not_led_there_by_force(owner: User, settings: Any) -> None:
    written_by(owner)
    assert Message.objects.count() == 1
    assert by_link(owner) == "/"
    Message.objects.all().delete()
    assert by_link(owner) == "/first-run/"
    settings.LLM_IS_EMBEDDED = False
    assert by_link(owner) == "/"
    settings.LLM_BASE_URL = ""
    assert by_link(owner) == "/first-run/"
    settings.LLM_PROVIDER = "anthropic:claude"
    assert by_link(owner) == "/"


def test_an_upgraded_installation_has_the_entry_of_the_menu_but_no_card(
    page: Client, settings: Any
) -> None:
    settings.LLM_IS_EMBEDDED = False
    shown = page.get("/admin/").content.decode()
    assert 'href="/first-run/"' in shown
    assert "Do not show this again" not in shown
    page.get("/first-run/")
    assert "Do not show this again" not in page.get("/admin/").content.decode()


@pytest.mark.parametrize("rights", [{}, {"is_staff": True}, {"is_owner": True, "is_staff": True}])
def test_others_are_not_led_there_and_see_nothing_of_it(
    owner: User, page: Client, rights: dict[str, bool]
) -> None:
    other = person("other", **rights)
    assert by_link(other) == "/"
    client = Client(HTTP_HOST=HOST)
    client.force_login(other)
    for name in PAGES:
        assert client.get(f"/first-run/{name}").status_code == 404, name
    for name in ("model", "message", "phone", "skip", "dismiss"):
        assert client.post(f"/first-run/{name}").status_code == 404, name
    page.get("/first-run/")
    if other.is_staff:
        assert "first-run" not in client.get("/admin/").content.decode()


def test_a_second_owner_does_not_see_it_until_the_first_is_gone(owner: User) -> None:
    second = person("second", is_owner=True, is_staff=True, is_superuser=True)
    assert by_link(second) == "/"
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert by_link(second) == "/first-run/"


def test_signed_out_each_page_leads_to_sign_in_and_back(db: None) -> None:
    for name in PAGES:
        answer = Client(HTTP_HOST=HOST).get(f"/first-run/{name}")
        assert answer["Location"] == f"/sign-in?next=/first-run/{name}"


def test_forms_want_the_token_of_their_page(owner: User) -> None:
    client = Client(HTTP_HOST=HOST, enforce_csrf_checks=True)
    client.force_login(owner)
    for name in ("model", "message", "phone", "skip", "dismiss"):
        assert client.post(f"/first-run/{name}").status_code == 403, name


# The steps


def test_each_step_is_skipped_and_found_again(page: Client) -> None:
    following = {"model": "message", "message": "phone", "phone": ""}
    for name, later in following.items():
        assert page.get("/first-run/")["Location"] == f"/first-run/{name}"
        answer = page.post("/first-run/skip", {"step": name})
        assert answer["Location"] == f"/first-run/{later}"
    shown = page.get("/first-run/").content.decode()
    for name in following:
        assert f'href="/first-run/{name}">Do it now' in shown
        assert page.get(f"/first-run/{name}").status_code == 200
    dashboard = page.get("/admin/").content.decode()
    assert "3 left" in dashboard
    assert "skipped" in dashboard


def test_a_step_that_is_not_one_is_not_found(page: Client) -> None:
    assert page.post("/first-run/skip", {"step": "other"}).status_code == 404
    assert setup_steps.stored() == {}


def test_the_state_of_each_step_has_its_time(page: Client) -> None:
    page.get("/first-run/")
    page.post("/first-run/skip", {"step": "phone"})
    page.post("/first-run/message")
    setup = Installation.objects.get(id=1).setup
    assert setup is not None
    assert set(setup) == {"begun_at", "is_first", "steps"}
    assert setup["is_first"] is True
    states = {name: each["state"] for name, each in setup["steps"].items()}
    assert states == {"phone": "skipped", "message": "done"}
    assert all(each["at"] for each in setup["steps"].values())
    page.post("/first-run/skip", {"step": "message"})
    assert setup_steps.stored()["steps"]["message"]["state"] == "done"


def test_the_card_and_the_entry_go_when_all_is_done(page: Client, owner: User) -> None:
    page.get("/first-run/")
    assert "3 left" in page.get("/admin/").content.decode()
    run = written_by(owner)
    Run.objects.filter(pk=run.pk).update(state=Run.State.SUCCEEDED)
    account = builtin_account("web")
    ChannelIdentity.objects.create(
        user=owner, kind="im", channel="telegram", value="5", account=account
    )
    assert "1 left" in page.get("/admin/").content.decode()
    model = own_model()
    chain = Assistant.objects.get(is_default=True).chain
    chain.all().delete()
    chain.create(model=model)
    shown = page.get("/admin/").content.decode()
    assert "First steps" not in shown
    assert "Everything is set up" in page.get("/first-run/").content.decode()


def test_a_model_that_was_removed_is_asked_for_again(page: Client) -> None:
    setup_steps.mark("model", "done", now=timezone.now())
    setup_steps.mark("message", "done", now=timezone.now())
    assert page.get("/first-run/")["Location"] == "/first-run/model"


@pytest.mark.parametrize(("back", "where"), [("dashboard", "/admin/"), ("", "/")])
def test_dismissed_it_is_offered_no_longer_but_opens(page: Client, back: str, where: str) -> None:
    page.get("/first-run/")
    assert page.post("/first-run/dismiss", {"back": back})["Location"] == where
    assert "First steps" not in page.get("/admin/").content.decode()
    assert page.get("/first-run/model").status_code == 200


def test_the_message_step_names_the_model(page: Client, settings: Any) -> None:
    assert "small demo model" in page.get("/first-run/message").content.decode()
    settings.LLM_BASE_URL, settings.LLM_IS_EMBEDDED = "", False
    assert "nothing can answer" in page.get("/first-run/message").content.decode()
    chain = Assistant.objects.get(is_default=True).chain
    chain.create(model=own_model(), position=0)
    shown = page.get("/first-run/message").content.decode()
    assert "<strong>mine</strong> answers." in shown
    assert "demo" not in shown


def test_an_answered_message_leads_on(page: Client) -> None:
    assert page.post("/first-run/message")["Location"] == "/first-run/phone"


def test_every_page_keeps_the_strict_policy_without_inline_parts(page: Client) -> None:
    for name in ("model", "message", "phone"):
        answer = page.get(f"/first-run/{name}")
        policy = answer["Content-Security-Policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        text = answer.content.decode()
        assert "<style" not in text
        assert " style=" not in text
        assert "<script>" not in text
        assert " onclick=" not in text


# The web chat


def test_the_chat_says_that_the_demo_model_answers_until_an_own_one_does(page: Client) -> None:
    note, hidden = 'id="demo-model"', 'id="demo-model" hidden'
    shown = page.get("/").content.decode()
    assert note in shown
    assert hidden not in shown
    assert 'href="/first-run/model"' in shown
    guest = Client(HTTP_HOST=HOST)
    guest.force_login(person("guest"))
    shown = guest.get("/").content.decode()
    assert note in shown
    assert "/first-run/" not in shown
    chain = Assistant.objects.get(is_default=True).chain
    first = chain.get()
    chain.create(model=own_model(), position=0)
    assert first.model.provider.from_environment
    assert hidden in page.get("/").content.decode()


def test_the_first_run_itself_is_not_audited_as_access(page: Client) -> None:
    before = AuditEntry.objects.count()
    page.get("/first-run/")
    page.post("/first-run/skip", {"step": "model"})
    assert AuditEntry.objects.count() == before
