"""``/assistant`` and ``/model`` on the in-memory channel, by two people at a time ([C8])."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from channels_app.intake import slash_commands
from channels_app.intake.inbound import receive_sender
from core.conversations import usage
from core.conversations.inbox import Draft
from core.database.transactions import atomic_write
from core.models import Assistant, ChannelAccount, ChannelIdentity, ChatSession, LanguageModel, Run
from core.providers import catalogue
from core.providers.base import ModelRequest, Usage
from tests.channels_app import choices
from tests.channels_app.running import make_person, memory_account

pytestmark = pytest.mark.django_db(transaction=True)
OWNER, ADA, BOB = "1", "2", "3"
Type = Callable[..., str]


@pytest.fixture
def account() -> ChannelAccount:
    """Return an account with an owner and two guests, and with assistants."""
    make_person("owner", OWNER, is_owner=True)
    make_person("ada", ADA)
    make_person("bob", BOB)
    return memory_account()


@pytest.fixture
def many(account: ChannelAccount) -> None:
    """Make assistants and models: ``poet`` is for Ada alone."""
    del account
    choices.make_here(listed="ada")


@pytest.fixture
def typed(account: ChannelAccount, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Return ``typed(sender, "/command")``: the answer of the gateway."""
    said: list[str] = []

    def keep(asked: slash_commands.Asked) -> str:
        said.append(carry_out(asked))
        return said[-1]

    carry_out = slash_commands.carry_out
    monkeypatch.setattr(slash_commands, "carry_out", keep)

    def make(sender: str, text: str, chat: str = "") -> str:
        receive(account, sender, text, chat=chat)
        return said.pop()

    return make


def receive(account: ChannelAccount, sender: str, text: str, *, chat: str = "") -> Run | None:
    """Receive a message; return its run, None for a command."""
    draft = Draft(
        account=account,
        sender=sender,
        chat=chat or f"chat-{sender}",
        text=text,
        update_id=str(timezone.now().timestamp()),
    )
    command = slash_commands.parse(text)
    return receive_sender(draft=draft, now=timezone.now(), command=command).run


def answered_by(account: ChannelAccount, sender: str, **more: Any) -> tuple[str, str]:
    """Return the slug of the assistant, and the model asked first, of a person's next message."""
    run = receive(account, sender, "hello", **more)
    assert run is not None
    known = catalogue.current()
    model = known.models[run.model_id].name if run.model_id else ""
    return known.assistants[run.assistant_id].slug, model


def test_c8_a_list_names_the_choices_of_a_person_and_the_present_one(
    typed: Type, many: None
) -> None:
    assert choices.names(typed(ADA, "/assistant")) == ["assistant", "coder", "poet"]
    assert choices.names(typed(BOB, "/assistant")) == ["assistant", "coder"]
    found = typed(OWNER, "/assistant")
    assert choices.names(found) == ["assistant", "coder", "hidden", "poet"]
    assert found.startswith("Assistant answers: it is the default.\n")
    assert "assistant (now)\n" in found
    assert choices.names(typed(BOB, "/model")) == ["small"]
    assert choices.names(typed(OWNER, "/model")) == ["default", "large", "small"]
    assert "default (now)" in typed(OWNER, "/model")


@pytest.mark.parametrize("name", ["coder", "Coder", "CODER", "  coder "])
def test_c8_a_choice_holds_for_its_person_alone(
    typed: Type, account: ChannelAccount, many: None, name: str
) -> None:
    assert typed(ADA, f"/assistant {name}") == (
        "Coder answers: it was chosen in this conversation. From your next message on."
    )
    assert answered_by(account, ADA) == ("coder", "")
    assert answered_by(account, BOB) == ("assistant", "")
    assert "coder — " not in typed(ADA, "/assistant"), "its name is the slug"
    assert "coder (now)" in typed(ADA, "/assistant")
    assert typed(ADA, "/assistant default").startswith("Assistant answers: it is the default.")
    assert answered_by(account, ADA) == ("assistant", "")


def test_c8_in_a_group_each_person_chooses_for_their_own_messages(
    typed: Type, account: ChannelAccount, many: None
) -> None:
    owner = ChannelIdentity.objects.get(value=OWNER).user
    ChannelIdentity.objects.create(user=owner, kind="im", value="-7")
    typed(ADA, "/assistant poet", chat="-7")
    typed(BOB, "/model small", chat="-7")
    assert answered_by(account, ADA, chat="-7") == ("poet", "")
    assert answered_by(account, BOB, chat="-7") == ("assistant", "small")
    assert answered_by(account, ADA) == ("assistant", ""), "elsewhere nothing was chosen"


def test_c8_a_model_is_chosen_by_its_name_or_label(
    typed: Type, account: ChannelAccount, many: None
) -> None:
    for name in ("small", "SMALL", "Other/small"):
        said = typed(BOB, f"/model {name}")
        assert said.startswith("Small is asked first: it was chosen in this conversation.")
        assert answered_by(account, BOB) == ("assistant", "small")
        assert answered_by(account, ADA) == ("assistant", "")
        assert "its own models" in typed(BOB, "/model default")
        assert answered_by(account, BOB) == ("assistant", "")


@pytest.mark.parametrize("command", ["/assistant", "/model"])
@pytest.mark.parametrize("name", ["poet", "hidden", "large", "nothing", "x" * 5000, "a\nb", "“"])
def test_c8_a_name_that_is_not_offered_is_not_chosen_and_not_confirmed(
    typed: Type, account: ChannelAccount, many: None, command: str, name: str
) -> None:
    """The same words for one that there is and one that there is not."""
    kind = command[1:]
    assert typed(BOB, f"{command} {name}") == (
        f"There is no {kind} of this name that you may choose. {command} lists them."
    )
    assert answered_by(account, BOB) == ("assistant", "")


def test_c8_both_choices_stay_beside_each_other_and_after_new(
    typed: Type, account: ChannelAccount, many: None
) -> None:
    typed(BOB, "/assistant coder")
    typed(BOB, "/model small")
    assert typed(BOB, "/new") == "A new conversation begins."
    assert answered_by(account, BOB) == ("coder", "small")
    run = receive(account, BOB, "/new and answer")
    assert run is not None
    assert catalogue.current().assistants[run.assistant_id].slug == "coder"


@pytest.mark.parametrize("change", ["withdrawn", "disabled", "deleted"])
def test_c8_a_withdrawn_choice_stops_counting_and_is_said_once(
    typed: Type, account: ChannelAccount, many: None, change: str
) -> None:
    typed(ADA, "/assistant poet")
    typed(ADA, "/model small")
    poet, small = Assistant.objects.get(slug="poet"), LanguageModel.objects.get(name="small")
    if change == "withdrawn":
        poet.people.clear()
        small.offered = False
    elif change == "disabled":
        poet.enabled = small.enabled = False
    poet.delete() if change == "deleted" else poet.save()
    small.delete() if change == "deleted" else small.save()
    assert answered_by(account, ADA) == ("assistant", "")
    for command in ("/assistant", "/model"):
        gone = f"The {command[1:]} that you chose here is no longer offered."
        assert gone in typed(ADA, command)
        assert gone not in typed(ADA, command)
    session = ChatSession.objects.get(chat=f"chat-{ADA}")
    assert (session.assistant_id, session.model_id) == (0, 0)


def test_c8_help_lists_commands_that_do_something(typed: Type, account: ChannelAccount) -> None:
    assert "/assistant" not in typed(BOB, "/help")
    assert "/model" not in typed(BOB, "/help")
    alone = typed(BOB, "/assistant")
    assert alone == "Assistant answers: it is the default.\nThere is no other one to choose."
    assert typed(BOB, "/model").endswith("There is no other one to choose.")
    choices.make_here(listed="ada")
    for sender in (OWNER, ADA, BOB):
        assert "\n/assistant — " in typed(sender, "/help")
        assert "\n/model — " in typed(sender, "/help")
    LanguageModel.objects.update(offered=False)
    Assistant.objects.exclude(slug="assistant").update(offered="nobody")
    catalogue.changed()
    assert "/model" not in typed(BOB, "/help")
    assert "/assistant" not in typed(BOB, "/help")
    assert "/assistant — " in typed(OWNER, "/help")


def test_c8_a_sender_by_the_owners_open_list_may_choose_as_a_guest_may(
    typed: Type, account: ChannelAccount, many: None
) -> None:
    """Such a sender speaks as the owner, but has no owner's rights."""
    owner = ChannelIdentity.objects.get(value=OWNER).user
    owner.only_listed = False
    owner.save()
    owner.identities.all().delete()
    assert choices.names(typed("99", "/assistant")) == ["assistant", "coder"]
    assert "There is no assistant" in typed("99", "/assistant hidden")
    assert "There is no model" in typed("99", "/model large")
    assert answered_by(account, "99") == ("assistant", "")
    typed("99", "/assistant coder")
    assert answered_by(account, "99") == ("coder", "")
    assert answered_by(account, "98") == ("assistant", "")


def test_c8_a_long_list_is_cut(typed: Type, account: ChannelAccount) -> None:
    Assistant.objects.bulk_create(
        Assistant(name=f"Number {each:02}", slug=f"n{each:02}") for each in range(60)
    )
    catalogue.changed()
    said = typed(BOB, "/assistant")
    assert "… and 21 more" in said
    assert said.count("\nn") == 39


def test_c8_usage_is_the_persons_own(typed: Type, account: ChannelAccount, many: None) -> None:
    """Calls of models by one person; the other has none, and a sender of an open list sees none."""
    owner = ChannelIdentity.objects.get(value=OWNER).user
    owner.only_listed = False
    owner.save()
    owner.identities.all().delete()
    run = receive(account, ADA, "hello")
    assert run is not None
    meter = usage.RunMeter.of_run(run=run)
    model = next(iter(catalogue.current().models.values()))
    request = ModelRequest(messages=[])
    meter.settled(model, request, usage=Usage(1234, 5), output_tokens=5, failure="")
    with atomic_write():
        usage.store(meter)
    assert "1,239" in typed(ADA, "/usage")
    assert "1,239" not in typed(BOB, "/usage")
    assert typed("99", "/usage") == slash_commands.NO_USAGE
    assert "/usage" in typed(ADA, "/help")
    assert "/usage" not in typed("99", "/help")
