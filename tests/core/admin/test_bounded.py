"""Lists of the admin hold the newest rows; older ones are a link away ([RQ17])."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from core.admin import bounded, conversations
from core.models import ChannelAccount, ChatSession, Message, Run, User

RUNS = "/admin/core/run/"
SESSIONS = "/admin/core/chatsession/"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def owner(client: Client, user: User, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Return a browser in which an owner is signed in; lists hold three rows."""
    User.objects.filter(pk=user.pk).update(is_owner=True, is_staff=True, is_superuser=True)
    client.force_login(User.objects.get(pk=user.pk))
    monkeypatch.setattr(bounded, "WINDOW", 3)
    return client


@pytest.fixture
def made(session: ChatSession) -> list[Run]:
    """Return seven runs, oldest first; the first has failed."""
    return [
        Run.objects.create(
            session=session,
            user=session.user,
            origin="old" if number == 0 else "http",
            state="failed" if number == 0 else "succeeded",
            text=f"number {number}" + " zero" * (number == 0) + " quince" * (number == 5),
        )
        for number in range(7)
    ]


def listed(browser: Client, address: str) -> Any:
    """Return the list at an address."""
    response = browser.get(address)
    assert response.status_code == 200, (address, response.get("Location"))
    return response.context["cl"]


def test_a_list_holds_the_newest_rows_and_leads_to_the_older_ones(
    owner: Client, made: list[Run]
) -> None:
    seen, address = [], RUNS
    while True:
        page = listed(owner, address)
        assert page.result_count == len(page.result_list) <= 3
        seen.append([run.text for run in page.result_list])
        if not page.older:
            break
        assert f'href="{page.older}"' in owner.get(address).content.decode()
        address = RUNS + page.older
    assert seen == [
        ["number 6", "number 5 quince", "number 4"],
        ["number 3", "number 2", "number 1"],
        ["number 0 zero"],
    ]


def test_a_list_offers_to_show_all_only_when_something_is_filtered(
    owner: Client, made: list[Run]
) -> None:
    offer = 'href="?">Show all</a>'
    for address in (RUNS, f"{RUNS}?o=1", SESSIONS):
        assert offer not in owner.get(address).content.decode(), address
    for address in (f"{RUNS}?q=quince", f"{RUNS}?state__exact=succeeded"):
        assert offer in owner.get(address).content.decode(), address


def test_filters_choices_and_search_are_about_the_listed_rows(
    owner: Client, made: list[Run]
) -> None:
    page = listed(owner, f"{RUNS}?state__exact=failed")
    assert page.result_count == 0
    assert page.older
    origin = next(each for each in page.filter_specs if each.title == "origin")
    assert [each["display"] for each in origin.choices(page)] == ["All", "http"]
    page = listed(owner, RUNS + page.older)
    assert page.older.startswith("?state__exact=failed&until=")
    assert [run.text for run in listed(owner, RUNS + page.older).result_list] == ["number 0 zero"]
    assert listed(owner, f"{RUNS}?q=zero").result_count == 0
    assert listed(owner, f"{RUNS}?q=number+quince").result_count == 1


def test_a_public_id_is_found_in_any_row(owner: Client, made: list[Run]) -> None:
    page = listed(owner, f"{RUNS}?q={made[0].public_id}")
    assert [run.pk for run in page.result_list] == [made[0].pk]
    assert listed(owner, f"{RUNS}?q={'x' * 22}").result_count == 0


def test_the_page_of_a_run_is_named_by_its_id_as_it_is(owner: Client, made: list[Run]) -> None:
    Run.objects.filter(pk=made[0].pk).update(public_id="small-letters-first-01")
    page = owner.get(f"{RUNS}{made[0].pk}/change/").content.decode()
    heading = page[page.index("<h1") : page.index("</h1>")]
    assert "Runs" in heading
    assert "small-letters-first-01" in heading


def test_an_action_reaches_the_rows_that_its_page_showed(owner: Client, made: list[Run]) -> None:
    Run.objects.filter(pk=made[4].pk).update(state="queued")
    newer = Run.objects.create(session=made[0].session, user=made[0].user, origin="http")
    assert newer.pk > made[4].pk
    owner.post(RUNS, {"action": "cancel", "_selected_action": [made[4].pk]})
    assert Run.objects.get(pk=made[4].pk).cancel_requested_at is not None


@pytest.mark.parametrize(
    "until",
    [
        *("", "x", "-1", "²", "9" * 30, "\0"),
        *("2026-02-31T00:00:00+00:00", "2026-02-01T00:00:00"),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    ],
)
def test_a_wrong_place_shows_the_newest_rows(owner: Client, made: list[Run], until: str) -> None:
    for address in (RUNS, SESSIONS):
        response = owner.get(address, {"until": until})
        assert response.status_code == 200
        assert response.context["cl"].result_count > 0


def test_sessions_are_listed_by_activity(
    owner: Client, account: ChannelAccount, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        ChatSession.objects.create(
            user=user,
            account=account,
            chat=f"c{number}",
            title=f"chat {number}",
            last_message_at=NOW - timedelta(days=number),
        )
    ChatSession.objects.update(created_at=NOW - timedelta(days=30))
    new = ChatSession.objects.create(user=user, account=account, chat="new", title="without words")
    ChatSession.objects.filter(pk=new.pk).update(created_at=NOW - timedelta(hours=1))
    monkeypatch.setattr(conversations, "MOST_COUNTED", 2)
    busy = ChatSession.objects.get(title="chat 0")
    Message.objects.bulk_create(Message(session=busy, role="user") for _ in range(4))
    page = listed(owner, SESSIONS)
    assert [row.title for row in page.result_list] == ["chat 0", "without words", "chat 1"]
    assert "more than 2" in owner.get(SESSIONS).content.decode()
    page = listed(owner, SESSIONS + page.older)
    assert [row.title for row in page.result_list] == ["chat 2", "chat 3", "chat 4"]
    assert page.older == ""


def test_people_are_searched_among_all_people(owner: Client) -> None:
    User.objects.bulk_create(User(username=f"person {number}") for number in range(9))
    page = listed(owner, "/admin/core/user/?q=person+0")
    assert [user.username for user in page.result_list] == ["person 0"]
    assert listed(owner, "/admin/core/user/").result_count == 3


@pytest.mark.parametrize(
    "rows", [RUNS, SESSIONS, "/admin/core/schedule/", "/admin/core/assistant/"]
)
def test_an_address_with_a_number_that_no_key_can_be_leads_back_to_the_list(
    owner: Client, rows: str
) -> None:
    answer = owner.get(f"{rows}{'9' * 25}/change/")
    assert (answer.status_code, answer.url) == (302, "/admin/")  # type: ignore[attr-defined]
