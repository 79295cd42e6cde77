"""``/reminders`` and ``/timezone`` on the in-memory channel, by two people ([H22])."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from channels_app.intake import reminders, slash_commands
from channels_app.intake.inbound import receive_personal, receive_sender
from channels_app.schedules import lists, places
from core.conversations.inbox import Draft
from core.conversations.schedules import changes, occurrences
from core.models import ChannelAccount, ChannelIdentity, Delivery, Occurrence, Schedule, User
from tests.channels_app.running import make_person, memory_account
from tests.channels_app.schedules.making import chat_of, fire, made

pytestmark = pytest.mark.django_db(transaction=True)
OWNER, ADA, BOB = "1", "2", "3"
NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
WEEKDAYS = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=7;BYMINUTE=30"
Type = Callable[..., str]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> ChannelAccount:
    """Return an account with an owner and two guests, at noon."""
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    make_person("owner", OWNER, is_owner=True)
    make_person("ada", ADA)
    make_person("bob", BOB)
    User.objects.update(time_zone="UTC")
    return memory_account()


@pytest.fixture
def typed(account: ChannelAccount, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Return ``typed(sender, "/command")``: the answer of the gateway."""
    said: list[str] = []
    numbers = iter(range(1000))
    carry_out = slash_commands.carry_out

    def keep(asked: slash_commands.Asked) -> str:
        said.append(carry_out(asked))
        return said[-1]

    monkeypatch.setattr(slash_commands, "carry_out", keep)

    def make(sender: str, text: str, chat: str = "", *, state: str = "sent") -> str:
        draft = Draft(
            account=account,
            sender=sender,
            chat=chat or f"chat-{sender}",
            text=text,
            update_id=f"u{next(numbers)}",
        )
        command = slash_commands.parse(text)
        assert command is not None
        receive_sender(draft=draft, now=NOON, command=command)
        rows = Delivery.objects.filter(dedupe_key__startswith="command:", state="pending")
        rows.update(state=state)
        return said.pop()

    return make


def person(sender: str) -> User:
    return ChannelIdentity.objects.get(value=sender).user


def for_person(account: ChannelAccount, sender: str, chat: str = "", **wish: Any) -> Schedule:
    """Make a schedule of a person in a chat of theirs."""
    return made(chat_of(person(sender), account, chat or f"chat-{sender}"), now=NOON, **wish)


def test_h22_the_list_is_numbered_the_next_one_first(typed: Type, account: ChannelAccount) -> None:
    for_person(account, ADA, text="news", kind="prompt", rule=WEEKDAYS)
    paused = for_person(account, ADA, text="tea", minutes=1)
    for_person(account, ADA, text="pills", minutes=10)
    for_person(account, ADA, text="call\nEve", minutes=35 * 60, time_zone="Asia/Tokyo")
    for_person(account, BOB, text="secret")
    changes.pause(schedule_ids=[paused.pk], why=Schedule.Why.FAILURES)
    assert typed(ADA, "/reminders").split("\n") == [
        "1. pills — Wednesday, 25 November 2026 at 12:10",
        "2. ✨ news — Thursday, 26 November 2026 at 07:30 (every weekday)",
        "3. call Eve — Friday, 27 November 2026 at 08:00 (Asia/Tokyo)",
        "4. tea — ⏸ paused after three failures",
        "",
        lists.HOW,
    ]
    assert "secret" in typed(BOB, "/reminders")
    assert typed(OWNER, "/reminders") == lists.NONE


def test_h22_a_time_to_which_one_was_put_off_is_marked(
    typed: Type, account: ChannelAccount
) -> None:
    row = for_person(account, ADA, text="tea", rule="FREQ=DAILY", minutes=1)
    one = Occurrence.objects.get(schedule=row)
    occurrences.snooze(one, until=NOON + timedelta(minutes=1, seconds=30))
    assert typed(ADA, "/reminders").startswith("1. tea — Wednesday, 25 November 2026 at 12:01")
    Occurrence.objects.filter(pk=one.pk).update(state="done", look_at=None)
    assert typed(ADA, "/reminders").startswith("1. tea — ↻ Wednesday, 25 November 2026 at 12:01")


def test_h22_pause_resume_and_delete_by_number(typed: Type, account: ChannelAccount) -> None:
    for_person(account, ADA, text="tea", minutes=30)
    for_person(account, ADA, text="pills", minutes=10)
    mine = for_person(account, BOB, text="mine")
    said = typed(ADA, "/reminders pause 2")
    assert said.startswith("Paused: tea\n\n1. pills — ")
    assert "2. tea — ⏸ paused\n" in said
    assert typed(ADA, "/reminders RESUME  2").startswith("Resumed: tea\n\n1. pills — ")
    assert typed(BOB, "/reminders").startswith("1. mine — ")  # a list of another conversation
    said = typed(ADA, "/reminders delete 1")
    assert said.startswith("Deleted: pills\n\n1. tea — ")
    assert "2." not in said
    assert typed(ADA, "/reminders delete 1") == f"Deleted: tea\n\n{lists.NONE}"
    mine.refresh_from_db()
    assert mine.state == "active"


def test_h22_a_number_of_an_older_list_deletes_no_other_one(
    typed: Type, account: ChannelAccount
) -> None:
    """A reminder that has fired changes its place; a deleted one does not come back."""
    for_person(account, ADA, text="tea", rule="FREQ=DAILY", minutes=10)
    for_person(account, ADA, text="bins", minutes=30)
    assert typed(ADA, "/reminders").startswith("1. tea — ")
    fire(NOON + timedelta(minutes=10))
    said = typed(ADA, "/reminders delete 2")
    assert said.startswith(f"{lists.CHANGED}\n\n1. bins — ")
    assert Schedule.objects.filter(state="active").count() == 2
    assert typed(ADA, "/reminders delete 1").startswith("Deleted: bins")


@pytest.mark.parametrize("name", ["pause", "delete"])
@pytest.mark.parametrize("state", ["pending", "dead"])
def test_h22_a_number_that_is_sent_twice_before_the_answer_came_changes_no_other_one(
    typed: Type, account: ChannelAccount, name: str, state: str
) -> None:
    """A second tap, a message that is sent again in a slow network, or an answer that was lost."""
    for text in ("tea", "bins", "pills"):
        for_person(account, ADA, text=text, rule="FREQ=DAILY", minutes=10)
    typed(ADA, "/reminders")
    typed(ADA, "/reminders", state=state)
    said = lists.SAID[name].removesuffix(".")
    assert typed(ADA, f"/reminders {name} 1", state=state).startswith(said)
    for _ in range(2):
        assert typed(ADA, f"/reminders {name} 1", state=state).startswith(lists.CHANGED)
    assert Schedule.objects.filter(state="active").count() == 2
    assert typed(ADA, "/reminders").startswith("1. ")
    assert typed(ADA, f"/reminders {name} 1").startswith(said)


def test_h22_a_list_that_was_left_out_counts_as_unseen(
    typed: Type, account: ChannelAccount
) -> None:
    """Of equal answers that wait the last is sent, whose numbers may be new to the person."""
    tea = for_person(account, ADA, text="tea", minutes=10)
    for_person(account, ADA, text="bins", minutes=20)
    typed(ADA, "/reminders")
    changes.pause(schedule_ids=[tea.pk], why=Schedule.Why.PERSON)
    for _ in range(6):
        typed(ADA, "/reminders", state="pending")
    assert Delivery.objects.filter(state="dismissed").count() == 5
    assert typed(ADA, "/reminders delete 1", state="pending").startswith(lists.CHANGED)


def test_h22_one_that_kept_its_number_and_has_another_time_by_now_is_deleted(
    typed: Type, account: ChannelAccount
) -> None:
    for_person(account, ADA, text="tea", rule="FREQ=DAILY", minutes=10)
    assert typed(ADA, "/reminders").startswith("1. tea — Wednesday")
    fire(NOON + timedelta(minutes=10))
    assert typed(ADA, "/reminders delete 1").startswith("Deleted: tea")


def test_h22_in_the_web_chat_too_a_number_of_an_older_list_deletes_no_other_one(
    account: ChannelAccount,
) -> None:
    """There a list is the answer of a run."""
    del account
    chat = places.web_chat(person(ADA))
    made(chat, now=NOON, text="tea", rule="FREQ=DAILY", minutes=10)
    made(chat, now=NOON, text="bins", minutes=30)

    def typed(text: str) -> str:
        draft = Draft(account=chat.account, text=text)
        command = slash_commands.answered_at_once(text)
        found = receive_personal(
            user=chat.user, draft=draft, session_id=chat.public_id, now=NOON, command=command
        )
        assert found.run is not None
        found.run.refresh_from_db()
        return str(found.run.result["text"])

    assert typed("/reminders").startswith("1. tea — ")
    fire(NOON + timedelta(minutes=10))
    assert typed("/reminders delete 1").startswith(f"{lists.CHANGED}\n\n1. bins — ")
    assert typed("/reminders delete 1").startswith("Deleted: bins")


@pytest.mark.parametrize("rule", ["FREQ=DAILY", ""])
def test_h22_of_several_with_the_same_text_the_one_that_the_list_showed_is_deleted(
    typed: Type, account: ChannelAccount, rule: str
) -> None:
    """Pills in the morning and in the evening: after the first the second has its number."""
    for_person(account, ADA, text="pills", rule=rule, minutes=10)
    evening = for_person(account, ADA, text="pills", minutes=600)
    assert typed(ADA, "/reminders").startswith("1. pills — Wednesday, 25 November 2026 at 12:10")
    fire(NOON + timedelta(minutes=10))
    said = typed(ADA, "/reminders delete 1")
    assert said.startswith(f"{lists.CHANGED}\n\n1. pills — Wednesday, 25 November 2026 at 22:00")
    assert typed(ADA, "/reminders delete 1").startswith("Deleted: pills")
    evening.refresh_from_db()
    assert evening.state == "ended"


def test_h22_without_an_older_list_a_number_counts_as_it_is(
    typed: Type, account: ChannelAccount
) -> None:
    for_person(account, ADA, text="tea", minutes=10)
    typed(ADA, "/reminders explode")
    assert typed(ADA, "/reminders delete 1").startswith("Deleted: tea")
    for_person(account, BOB, text="mine", minutes=10)
    assert typed(BOB, "/reminders delete 1").startswith("Deleted: mine")


@pytest.mark.parametrize(
    ("argument", "answer"),
    [
        ("pause 2", lists.NO_SUCH),
        ("pause 0", lists.NO_SUCH),
        ("pause -1", lists.HOW),
        ("pause", lists.HOW),
        ("pause ²", lists.HOW),
        ("pause " + "9" * 5000, lists.HOW),
        ("explode 1", lists.HOW),
        ("delete 1 2", lists.HOW),
        ("x" * 3000, lists.HOW),
    ],
)
def test_h22_other_arguments_change_nothing(
    typed: Type, account: ChannelAccount, argument: str, answer: str
) -> None:
    row = for_person(account, ADA)
    assert typed(ADA, f"/reminders {argument}") == answer
    row.refresh_from_db()
    assert row.state == "active"


def test_h22_one_whose_time_has_passed_is_not_resumed(
    typed: Type, account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = for_person(account, ADA, minutes=10)
    changes.pause(schedule_ids=[row.pk], why=Schedule.Why.PERSON)
    Schedule.objects.update(start=(NOON - timedelta(days=1)).replace(tzinfo=None).isoformat())
    User.objects.update(language="de-DE")
    assert typed(ADA, "/reminders resume 1").startswith("Ihre Zeit ist vorbei.")
    row.refresh_from_db()
    assert row.state == "paused"


def test_h22_one_that_the_owner_paused_is_not_resumed_by_its_person(
    typed: Type, account: ChannelAccount
) -> None:
    row = for_person(account, ADA)
    changes.pause(schedule_ids=[row.pk], why=Schedule.Why.OWNER)
    assert "⏸ paused by the owner" in typed(ADA, "/reminders")
    assert typed(ADA, "/reminders resume 1").startswith("The owner of this gateway paused this.")
    User.objects.update(language="de")
    assert typed(ADA, "/reminders resume 1").startswith("Der Eigentümer dieses Gateways")
    row.refresh_from_db()
    assert row.state == "paused"
    assert typed(ADA, "/reminders delete 1").startswith("Gelöscht: take the pills")


def test_h22_in_a_group_those_of_this_chat_and_this_person(
    typed: Type, account: ChannelAccount
) -> None:
    ChannelIdentity.objects.create(user=person(OWNER), kind="im", value="-7")
    for_person(account, ADA, text="private")
    for_person(account, ADA, "-7", text="common")
    for_person(account, BOB, "-7", text="of Bob")
    said = typed(ADA, "/reminders", chat="-7")
    assert "1. common" in said
    assert "private" not in said
    assert "of Bob" not in said
    assert typed(ADA, "/reminders delete 2", chat="-7") == lists.NO_SUCH
    assert "private" in typed(ADA, "/reminders")
    assert "common" in typed(ADA, "/reminders")


@pytest.mark.parametrize("command", ["/reminders", "/reminders delete 1", "/timezone Berlin"])
def test_h22_not_for_senders_that_an_open_list_lets_in(
    typed: Type, account: ChannelAccount, command: str
) -> None:
    """Such a sender speaks as the owner, whose reminders are not theirs."""
    row = for_person(account, OWNER, text="of the owner")
    owner = person(OWNER)
    owner.only_listed = False
    owner.save()
    owner.identities.all().delete()
    assert typed("99", command) == reminders.NOT_LISTED
    assert "/reminders" not in typed("99", "/help")
    assert "/timezone" not in typed("99", "/help")
    assert "/reminders — " in typed(ADA, "/help")
    assert "/timezone — " in typed(ADA, "/help")
    row.refresh_from_db()
    owner.refresh_from_db()
    assert (row.state, owner.time_zone) == ("active", "UTC")


def test_h22_a_long_list_fits_into_one_message(typed: Type, account: ChannelAccount) -> None:
    for number in range(50):
        for_person(
            account, ADA, text=f"{number} " + "x" * 300, minutes=number + 1, rule="FREQ=DAILY"
        )
    said = typed(ADA, "/reminders")
    assert len(said) < 4000
    shown = sum(line[0].isdigit() for line in said.split("\n") if line)
    assert f"… {50 - shown} more" in said
    assert typed(ADA, "/reminders delete 50").startswith("Deleted: 49 xxx")
    assert Schedule.objects.filter(state="ended").count() == 1
    assert "buttons" not in Delivery.objects.latest("id").payload


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("São Paulo", "America/Sao_Paulo"),
        ("UTC", "UTC"),
    ],
)
def test_h22_a_time_zone_is_set_by_a_city_or_its_name(
    typed: Type, account: ChannelAccount, wanted: str, name: str
) -> None:
    said = typed(ADA, f"/timezone {wanted}")
    assert said.startswith(f"Your time zone is {name} (")
    assert person(ADA).time_zone == name
    assert person(BOB).time_zone == "UTC"
    assert typed(ADA, "/timezone") == f"{said} {reminders.HOW}"


def test_h22_reminders_that_exist_keep_their_time_zone(
    typed: Type, account: ChannelAccount
) -> None:
    row = for_person(account, ADA, rule=WEEKDAYS)
    for_person(account, BOB)
    assert typed(ADA, "/timezone Berlin") == (
        "Your time zone is Europe/Berlin (13:00). Reminders that exist keep their time zone."
    )
    row.refresh_from_db()
    assert row.time_zone == "UTC"
    assert typed(ADA, "/timezone UTC") == "Your time zone is UTC (12:00)."


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ("Berln", "I do not know this time zone. Did you mean Europe/Berlin?"),
        ("Europe/Berln", "I do not know this time zone. Did you mean Europe/Berlin"),
        ("Indiana/", "I do not know this time zone"),
        ("x" * 4000, f"{reminders.UNKNOWN} {reminders.HOW}"),
        ("../../etc/passwd", f"{reminders.UNKNOWN} {reminders.HOW}"),
        ("san", "Which one? "),
    ],
)
def test_h22_an_unknown_time_zone_changes_nothing(
    typed: Type, account: ChannelAccount, wanted: str, answer: str
) -> None:
    assert typed(ADA, f"/timezone {wanted}").startswith(answer)
    assert person(ADA).time_zone == "UTC"


@pytest.mark.parametrize(
    ("language", "zone", "none"),
    [
        ("de", "Deine Zeitzone ist UTC (12:00).", "Du hast keine Erinnerungen."),
        ("es-MX", "Tu zona horaria es UTC (12:00).", "No tienes recordatorios."),
        ("fr", "Votre fuseau horaire est UTC (12:00).", "Vous n'avez aucun rappel."),
        ("ja", "タイムゾーンは UTC (12:00) です。", "リマインダーはありません。"),
        ("zh-CN", "您的时区是 UTC (12:00)。", "您没有提醒。"),
    ],
)
def test_h22_in_the_persons_language(
    typed: Type, account: ChannelAccount, language: str, zone: str, none: str
) -> None:
    User.objects.filter(pk=person(ADA).pk).update(language=language)
    assert typed(ADA, "/timezone utc") == zone
    assert typed(ADA, "/reminders").startswith(none)


def test_h22_without_a_known_time_zone(typed: Type, account: ChannelAccount) -> None:
    User.objects.update(time_zone="")
    assert typed(ADA, "/timezone") == f"{reminders.NO_ZONE} {reminders.HOW}"
    User.objects.update(time_zone="Mars/Base")
    assert typed(ADA, "/timezone").startswith("Your time zone is Mars/Base.")
