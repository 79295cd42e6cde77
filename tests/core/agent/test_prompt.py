"""The messages of a turn: the instructions of its assistant, and a history that fits the model."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from core.agent import prompt
from core.agent.loop import Turn
from core.agent.prompt import Capacity, Prompt, tokens_of
from core.conversations import runs, sessions
from core.database.statements import Said
from core.lib.tokens import estimate, of_calls
from core.models import (
    Assistant,
    AssistantModel,
    AssistantVersion,
    ChatSession,
    LanguageModel,
    Message,
    ModelProvider,
    Run,
    RunOptions,
)
from core.providers import catalogue
from core.providers.base import ChatMessage, Delta, ModelRequest, ProviderError
from core.providers.catalogue import ModelInfo
from core.tools import phrases, registry
from core.tools.base import ToolContext
from tests.core.conftest import Say
from tests.plans import listening

CALL = {"id": "c", "name": "look", "arguments": '{"at":"it"}', "result": "seen", "step": "1"}
TEXTS = st.text(alphabet="ab 1é", max_size=60)
CALLS = st.lists(
    st.builds(lambda text, step: {**CALL, "result": text, "step": step}, TEXTS, st.just("1")),
    max_size=2,
)
SAID = st.builds(
    lambda role, text, calls: (role, text or "x", calls if role == "assistant" else []),
    *(st.sampled_from(["user", "assistant"]), TEXTS, CALLS),
)


def prompt_of(rows: list[tuple[str, str, list[dict[str, str]]]]) -> Prompt:
    """Return a prompt with a history, given oldest first."""
    said = [Said(number, *each) for number, each in enumerate(rows, 1)]
    return Prompt(
        system={"role": "system", "content": "rules"},
        current={"role": "user", "content": "new"},
        system_tokens=estimate("rules"),
        earlier=said[::-1],
    )


def total(messages: list[ChatMessage]) -> int:
    """Return the estimated tokens of messages."""
    return sum(map(tokens_of, messages))


def fitted_or_none(made: Prompt, capacity: Capacity) -> list[ChatMessage] | None:
    """Return the messages for a model; None where the new one does not fit."""
    try:
        return made.within(capacity)
    except ProviderError as error:
        if error.code != "context_length":
            raise
        return None


@given(
    st.lists(SAID, max_size=12),
    *(st.integers(0, 700), st.integers(0, 400), st.integers(0, 90), st.booleans()),
)
def test_the_messages_fit_the_window_and_is_well_formed(
    rows: Any, window: int, answer: int, tools: int, with_calls: bool
) -> None:
    """Instructions first, the new message last, calls before their results, a person begins."""
    made = prompt_of(rows)
    sent = fitted_or_none(made, Capacity(window, answer, tools, with_calls))
    if sent is None:
        assert total([made.system, made.current]) + tools + min(answer, 256) > window
        return
    assert sent[0] is made.system
    assert sent[-1] is made.current
    assert total(sent) + tools <= window
    history = sent[1:-1]
    assert total(sent) + tools + answer <= window or not history
    assert not history or history[0]["role"] == "user"
    open_calls: list[str] = []
    for each in history:
        if each["role"] == "tool":
            assert open_calls.pop(0) == each["tool_call_id"]
            continue
        assert not open_calls
        open_calls = [call["id"] for call in each.get("tool_calls", ())]
    assert not open_calls
    assert with_calls or all("tool_calls" not in each for each in history)
    told = [(each["role"], each["content"]) for each in history if each["content"]]
    texts = [(role, text) for role, text, _ in rows]
    told = [each for each in told if each[0] != "tool" and each[1] != prompt.UNASKED]
    assert told == texts[len(texts) - len(told) :]
    if made.left_out:
        assert made.left_out == len(rows) - len(told)
    else:
        assert all(role == "assistant" for role, _ in texts[: len(texts) - len(told)])


@given(st.lists(SAID, max_size=12), st.integers(0, 700), st.integers(0, 300), st.booleans())
def test_a_larger_window_leaves_nothing_more_out(
    rows: Any, window: int, more: int, with_calls: bool
) -> None:
    made = prompt_of(rows)
    small = fitted_or_none(made, Capacity(window, 90, 0, with_calls))
    large = fitted_or_none(made, Capacity(window + more, 90, 0, with_calls))
    if small is not None:
        assert large is not None
        assert [each for each in small if each not in large] == []
        assert len(small) <= len(large)


@given(st.lists(SAID, max_size=6), st.lists(TEXTS, min_size=1, max_size=3), st.integers(300, 900))
def test_messages_of_the_turn_itself_come_last_and_take_their_place(
    rows: Any, results: list[str], window: int
) -> None:
    made = prompt_of(rows)
    added: list[ChatMessage] = []
    for number, text in enumerate(results):
        function = {"name": "look", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        added.append({"role": "assistant", "content": "", "tool_calls": [call]})
        added.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    sent = made.within(Capacity(window, 50), added=added)
    assert sent[-len(added) :] == added
    assert sent[-len(added) - 1] is made.current
    assert total(sent) <= window


def test_long_results_of_this_turn_are_shortened_to_the_window() -> None:
    """A result has up to 50,000 characters: more than the window of many a model."""
    made = prompt_of([("user", "before", [])])
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    added: list[ChatMessage] = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "begin" + "x" * 50_000 + "end"},
    ]
    sent = made.within(Capacity(8192, 1024), added=added)
    assert total(sent) <= 8192
    assert sent[-1]["content"].startswith("begin")
    assert sent[-1]["content"].endswith("end")
    assert "characters left out" in sent[-1]["content"]
    assert len(sent[-1]["content"]) > 15_000
    assert len(added[1]["content"]) > 50_000
    with pytest.raises(ProviderError) as refused:
        made.within(Capacity(400, 100), added=[*added, *added, *added])
    assert refused.value.code == "context_length"


def test_calls_take_at_most_a_quarter_of_a_history() -> None:
    """So that a small model does not lose the conversation for a long result."""
    rows = [
        each
        for number in range(8)
        for each in (("user", "q" * 40, []), ("assistant", "a" * 40, [CALL | {"id": str(number)}]))
    ]
    made = prompt_of(rows)
    fixed = total([made.system, made.current])
    budget = 4 * of_calls([CALL])
    for tokens, calls, texts in ((budget - 1, 0, 10), (budget, 1, 10), (2 * budget, 2, 16)):
        sent = made.within(Capacity(fixed + tokens, 0, 0, with_calls=True))
        assert sum("tool_calls" in each for each in sent) == calls
        assert sum(bool(each["content"]) and each["role"] != "tool" for each in sent) == texts + 2
        assert made.left_out == 16 - texts
    without = made.within(Capacity(fixed + 16 * estimate("q" * 40), 0, 0, with_calls=False))
    assert len(without) == 18


def test_a_picture_takes_its_place_but_refuses_no_message() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    made = prompt_of([("user", "before", [])])
    made.current = {"role": "user", "content": [{"type": "text", "text": "look"}, *[url] * 3]}
    assert len(made.within(Capacity(3500, 100))) == 3
    assert len(made.within(Capacity(3000, 100))) == 2
    assert len(made.within(Capacity(500, 100))) == 2


def test_earlier_pictures_take_at_most_a_quarter_of_a_history_the_newest_first() -> None:
    made = prompt_of([("user", "first", []), ("assistant", "a", []), ("user", "second", [])])
    made.pictures = {3: ["data:b", "data:c"], 1: ["data:a"]}
    for budget, shown in ((3000, []), (4500, ["b"]), (8500, ["b", "c"]), (12_500, ["a", "b", "c"])):
        sent = made.within(Capacity(total([made.system, made.current]) + budget, 0))
        assert [each["role"] for each in sent[1:]] == ["user", "assistant", "user", "user"]
        assert total(sent) <= total([made.system, made.current]) + budget
        parts = [part for each in sent for part in each["content"] if isinstance(part, dict)]
        urls = [part["image_url"]["url"][-1] for part in parts if part["type"] == "image_url"]
        assert urls == shown


def test_a_reminder_before_any_message_is_in_the_history() -> None:
    """Vendors take no history that begins with the assistant: it was left out."""
    made = prompt_of([("assistant", "⏰ Call the dentist", [])])
    sent = made.within(Capacity(500, 100))
    assert [each["role"] for each in sent] == ["system", "user", "assistant", "user"]
    assert [each["content"] for each in sent[1:3]] == [prompt.UNASKED, "⏰ Call the dentist"]
    begun = prompt_of([("user", "hi", []), ("assistant", "⏰ Call the dentist", [])])
    assert prompt.UNASKED not in str(begun.within(Capacity(500, 100)))


def test_a_message_that_does_not_fit_is_refused_with_the_length_that_does() -> None:
    """Some servers leave out the beginning of a long one without a word."""
    made = prompt_of([])
    made.current = {"role": "user", "content": "x" * 40_000}
    with pytest.raises(ProviderError) as refused:
        made.within(Capacity(8192, 1024))
    assert refused.value.code == "context_length"
    assert refused.value.retry_after is None
    fitting = int(str(refused.value).split("about ")[1].split()[0].replace(",", ""))
    assert str(refused.value) == prompt.TOO_LONG.format(fitting=fitting, characters=40_000)
    made.current = {"role": "user", "content": "x" * fitting}
    assert len(made.within(Capacity(8192, 1024))) == 2
    with pytest.raises(ProviderError, match="conversation is too long"):
        made.within(Capacity(300, 100, tools=300))


def test_a_model_without_tools_gets_the_answers_without_the_calls() -> None:
    made = prompt_of([("user", "q", []), ("assistant", "a", [CALL])])
    able = model_of(context_tokens=8192)
    roles = ["system", "user", "assistant", "tool", "assistant", "user"]
    assert [each["role"] for each in made.fitted(able, 100)] == roles
    for model, tools in ((able, 0), (replace(able, can_call_tools=False), 100)):
        sent = made.fitted(model, tools)
        assert [each["role"] for each in sent] == ["system", "user", "assistant", "user"]
    assert [each["role"] for each in made.messages] == roles


def model_of(**fields: Any) -> ModelInfo:
    """Return a model that is not stored."""
    provider = ModelProvider(name="p")
    row = LanguageModel(provider=provider, name="m", max_output_tokens=100)
    return replace(catalogue.model_info(row, None), **fields)


@pytest.fixture
def answer(session: ChatSession) -> Callable[..., Message]:
    """Return a function that stores an answer as the end of a run does."""

    def write(run: Run, text: str, *made: dict[str, str]) -> Message:
        outcome = runs.Outcome(state=Run.State.SUCCEEDED, text=text, calls=list(made))
        runs.leave_behind(run, outcome, None)
        return Message.objects.get(run=run, role="assistant")

    return write


@pytest.mark.usefixtures("woken")
def test_calls_are_stored_with_the_answer_and_come_back_with_the_history(
    say: Say, answer: Callable[..., Message]
) -> None:
    first, second = say("what time is it?"), say("and now?")
    row = answer(first, "It is nine.", CALL)
    assert row.calls == [CALL]
    assert row.call_tokens == of_calls([CALL])
    assert row.tokens == estimate("It is nine.")
    assert "calls" not in row.data
    sent = prompt.prepare(second).fitted(model_of(context_tokens=8192), 100)
    assert [(each["role"], each["content"]) for each in sent[1:]] == [
        ("user", "what time is it?"),
        *(("assistant", ""), ("tool", "seen"), ("assistant", "It is nine.")),
        ("user", "and now?"),
    ]
    assert sent[2]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at":"it"}'}


def test_calls_are_no_part_of_the_public_result() -> None:
    outcome = runs.Outcome(state=Run.State.SUCCEEDED, text="x", calls=[CALL])
    assert "calls" not in runs.final(outcome, 1)["result"]


@pytest.mark.usefixtures("woken")
def test_an_answer_without_calls_has_no_columns_of_them(
    say: Say, answer: Callable[..., Message]
) -> None:
    row = answer(say("x"), "y")
    assert (row.calls, row.call_tokens) == (None, None)


@pytest.mark.usefixtures("woken")
def test_calls_without_an_answer_are_not_sent(say: Say, answer: Callable[..., Message]) -> None:
    """Some servers accept no person's message after a tool's result."""
    first, second = say("one"), say("two")
    answer(first, "", CALL)
    sent = prompt.prepare(second).fitted(model_of(context_tokens=8192), 100)
    assert [each["content"] for each in sent[1:]] == ["one", "two"]


def models(*windows: int) -> tuple[Assistant, list[LanguageModel]]:
    """Store an assistant whose chain has models of these windows; it becomes the default."""
    known = catalogue.current()
    provider = ModelProvider.objects.create(name="p")
    assistant = Assistant.objects.get(pk=known.default)
    assistant.chain.all().delete()
    made = [
        LanguageModel.objects.create(
            provider=provider, name=f"m{window}", context_tokens=window, max_output_tokens=100
        )
        for window in windows
    ]
    for position, model in enumerate(made):
        AssistantModel.objects.create(assistant=assistant, model=model, position=position)
    return assistant, made


@pytest.mark.usefixtures("woken")
def test_one_read_serves_every_model_of_the_chain(
    say: Say, answer: Callable[..., Message], settings: Settings
) -> None:
    settings.LLM_SYSTEM_PROMPT = "Be kind."
    _, rows = models(700, 1500)
    asked = [say(f"{number} " + "x" * 200) for number in range(20)]
    for run in asked:
        answer(run, "y" * 200)
    known = catalogue.current()
    last = Run.objects.select_related("session", "user").get(pk=asked[-1].pk)  # as it is claimed
    with listening() as statements:
        made = prompt.prepare(last, known=known)
        small, large = (made.fitted(known.models[row.pk]) for row in rows)
        left_out = made.left_out
        again = made.fitted(known.models[rows[0].pk])
    assert len(statements) == 1
    assert again == small
    assert 2 < len(small) < len(large) < 40
    assert left_out > 0
    assert made.left_out == left_out + len(large) - len(small)
    for sent, window in ((small, 700), (large, 1500)):
        assert total(sent) <= window - 100
        assert total(sent) > window - 100 - 2 * estimate("x" * 203)


@pytest.mark.usefixtures("woken")
def test_the_instructions_are_those_of_the_version_that_the_run_began_with(
    say: Say, settings: Settings
) -> None:
    settings.LLM_SYSTEM_PROMPT = "Be kind."
    assistant, _ = models(3000)
    run = say("x")
    assert system_of(run) == "Be kind."

    assistant.instructions, assistant.version = "You are a pirate.", 2
    assistant.save()
    AssistantVersion.objects.create(
        assistant=assistant, number=2, instructions=assistant.instructions
    )
    pirate = say("y")
    assert system_of(pirate) == "You are a pirate."
    assert system_of(run) == "Be kind."

    assistant.instructions, assistant.version = "You are a poet.", 3
    assistant.save()
    assert system_of(pirate) == "You are a pirate."

    pirate.assistant_version = 0
    assert system_of(pirate) == "Be kind."
    pirate.assistant_id, pirate.assistant_version = 2**40, 2
    assert system_of(pirate) == "Be kind."


@pytest.mark.usefixtures("woken")
def test_a_picture_without_words_stays_in_the_history(
    say: Say, answer: Callable[..., Message]
) -> None:
    """One in a data URL, which waits for no description; the person sees no words with it."""
    models(3000)
    shown = say("", media=[{"kind": "image", "url": "data:image/png;base64,AA=="}])
    answer(shown, "A cat.")
    made = prompt.prepare(say("What colour is it?"))
    assert [each.text for each in made.earlier] == ["A cat.", "[image message received]"]
    assert Message.objects.get(run=shown, role="user").data["said"] == ""
    assert shown.text == ""


@pytest.mark.usefixtures("woken")
def test_a_model_without_tools_is_told_the_date_where_its_person_is(
    say: Say, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it has no way to know it; the day alone, as a server keeps what a prompt begins with."""
    settings.LLM_SYSTEM_PROMPT = "Be kind."
    run = say("x")
    run.user.time_zone = "Pacific/Kiritimati"
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 11, 28, 11, tzinfo=UTC))
    made, able = prompt.prepare(run), model_of(context_tokens=8192)
    unable = replace(able, can_call_tools=False)
    dated = "Be kind.\n\nToday is Sunday, 2026-11-29."
    for model, tools, content in ((able, 50, "Be kind."), (able, 0, dated), (unable, 50, dated)):
        assert made.fitted(model, tools)[0] == {"role": "system", "content": content}
    made.own = [{"role": "user", "content": "mine"}]
    assert made.fitted(unable)[0]["content"] == "Be kind."


def system_of(run: Run) -> str:
    """Return the system message of a run."""
    return str(prompt.prepare(run).system["content"])


@pytest.mark.usefixtures("woken")
def test_a_clients_context_is_found_by_its_old_name_and_a_bridges_is_none(say: Say) -> None:
    """A run may wait since before an update, for a worker or for a yes."""
    models(3000)
    run = say("x")
    cases: list[tuple[RunOptions, str]] = [
        ({"client_context": "The page is blue.", "model_options": {}}, "The page is blue."),
        ({"context": "The page is blue.", "model_options": {}}, "The page is blue."),
        ({"context": "The page is blue."}, ""),
    ]
    for options, found in cases:
        run.options = options
        assert system_of(run).removeprefix(prompt.SYSTEM_PROMPT).strip() == found


@pytest.mark.usefixtures("woken")
def test_an_assistants_languages_are_a_sentence_of_its_instructions(say: Say) -> None:
    assistant, _ = models(3000)
    run = say("x")
    for codes, ending in (
        (["de"], "Answer in German, whatever language the person writes in."),
        (
            ["de", "pt-BR", "xx"],
            "Answer in the language of the person if it is German, Brazilian Portuguese or xx, "
            "else in German.",
        ),
    ):
        assistant.languages = codes
        assistant.save()
        assert system_of(run) == f"{prompt.SYSTEM_PROMPT}\n\n{ending}"


@pytest.mark.usefixtures("woken")
def test_a_clients_own_history_follows_the_assistants_instructions_unchanged(say: Say) -> None:
    assistant, _ = models(600)
    assistant.instructions, assistant.version = "You are a pirate.", 2
    assistant.save()
    own = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x" * 9000}]
    made = prompt.prepare(say("mine", options={"messages": own}))
    system = {"role": "system", "content": "You are a pirate.\n\nBe brief."}
    assert made.fitted(model_of(context_tokens=600), 100) == [system, own[1]]
    assert made.left_out == 0


@pytest.mark.usefixtures("woken")
def test_that_messages_are_left_out_is_said_once_in_a_conversation(
    say: Say, session: ChatSession
) -> None:
    first, second = say("eins zwei und das ist ein Text"), say("y")
    assert prompt.note_shortened(first)
    assert not prompt.note_shortened(first)
    assert not prompt.note_shortened(second)
    assert not prompt.note_shortened(Run.objects.select_related("session").get(pk=second.pk))
    assert ChatSession.objects.get(pk=session.pk).shortened_at is not None
    assert prompt.SHORTENED in phrases.SENTENCES


@pytest.mark.usefixtures("woken")
def test_an_answer_does_not_fail_because_it_is_not_recorded_that_messages_are_left_out(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: ChatSession) -> bool:
        raise OperationalError("the server closed the connection")

    run = say("x")
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "mark_shortened", away)
        assert not prompt.note_shortened(run)
    assert prompt.note_shortened(run)  # the next turn says it


@pytest.mark.usefixtures("woken")
def test_an_answer_that_came_after_a_new_start_is_no_shortening(
    say: Say, answer: Callable[..., Message], session: ChatSession
) -> None:
    """Nor does it belong to the new conversation, as a reminder does."""
    first = say("before")
    session.history_from = Message.objects.latest("id").id
    session.save()
    answer(first, "late")
    made = prompt.prepare(Run.objects.select_related("session").get(pk=say("new").pk))
    assert len(made.fitted(model_of(context_tokens=8192))) == 2
    assert made.left_out == 0
    due = Run.objects.create(session=session, user=session.user, text="", route={})
    Message.objects.create(session=session, run=due, role="assistant", text="⏰ Dentist", tokens=9)
    made = prompt.prepare(Run.objects.select_related("session").get(pk=say("who?").pk))
    texts = [each["content"] for each in made.fitted(model_of(context_tokens=8192))[1:]]
    assert texts == ["new", "⏰ Dentist", "who?"]
    session.history_from = Message.objects.get(text="new").id
    session.save()
    made = prompt.prepare(Run.objects.select_related("session").get(pk=say("who?").pk))
    texts = [each["content"] for each in made.fitted(model_of(context_tokens=8192))[1:]]
    assert texts == [prompt.UNASKED, "⏰ Dentist", "who?", "who?"]


def test_the_tokens_of_tools_are_those_of_their_schemas() -> None:
    assert prompt.tools_tokens([]) == 0
    assert prompt.tools_tokens(registry.schemas()) > 500


@pytest.mark.parametrize("window", [2048, 3072, 4096, 8192])
def test_a_small_window_is_not_filled_by_the_descriptions_of_tools(window: int) -> None:
    """The gateway's last tools are left out, a client's stay; each has place for a message."""
    mine = {"type": "function", "function": {"name": "mine", "parameters": {}}}
    turn = turn_with(mine)
    tools = [*registry.schemas(), mine]
    sent = turn.fitted(ModelRequest([], tools), model_of(context_tokens=window))
    names = [each["function"]["name"] for each in sent.tools]
    assert names[-1] == "mine"
    assert names[:-1] == [*registry.TOOLS][: len(names) - 1]
    assert names[0] == "current_time"
    assert (len(names) == len(tools)) == (window == 8192)
    assert [each["content"] for each in sent.messages] == ["rules", "new"]


def test_no_more_tools_than_vendors_take_are_offered_beside_a_clients() -> None:
    """OpenAI refuses a request with more than 128."""
    own, theirs = registry.schemas(), [{"function": {"name": f"{n}"}} for n in range(125)]
    turn, model = turn_with(*theirs), model_of(context_tokens=200_000)
    assert turn.fitted(ModelRequest([], [*own, *theirs]), model).tools == [*own[:3], *theirs]


def test_tools_of_servers_are_no_more_than_vendors_take() -> None:
    """Else every turn of a gateway with a large MCP server would fail at OpenAI."""
    own = [{"function": {"name": f"{number}"}} for number in range(130)]
    model = model_of(context_tokens=200_000)
    assert turn_with().fitted(ModelRequest([], own), model).tools == own[:128]


def turn_with(*tools: dict[str, Any]) -> Turn:
    """Return a turn of a client that has these tools."""
    return Turn(
        messages=[],
        provider=Nothing(),
        emit=lambda _: None,
        context=ToolContext(1, 1, 1, "", "", lambda _: None),
        client_tools=[*tools],
        prompt=prompt_of([]),
    )


class Nothing:
    """A provider that is not asked."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        raise NotImplementedError

    async def close(self) -> None: ...


OWN: list[ChatMessage] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "old " * 300},
    {"role": "assistant", "content": "long " * 300},
    {"role": "user", "content": "new"},
]


def own_prompt(**more: Any) -> Prompt:
    """Return a prompt of a client's own messages."""
    return Prompt(
        system={"role": "system", "content": "rules"},
        current={"role": "user", "content": "new"},
        system_tokens=estimate("rules"),
        own=OWN,
        **more,
    )


def test_w22_a_client_of_the_model_alone_sends_the_only_messages() -> None:
    """[W22] Without the gateway's instructions, uncut, whatever the window is."""
    made = own_prompt(is_alone=True)
    assert made.messages == OWN
    assert made.within(Capacity(100, 20)) == OWN


def test_w23_the_oldest_messages_are_left_out_where_the_client_lets_them() -> None:
    """[W23] System messages stay, and the rest begins with a person's message."""
    made = own_prompt(is_alone=True, may_shorten=True)
    assert made.within(Capacity(5000, 100)) == OWN
    assert made.within(Capacity(300, 100)) == [OWN[0], OWN[3]]
    assert made.within(Capacity(50, 45)) == OWN  # nothing would be left: the server says so
    made = own_prompt(may_shorten=True)
    assert made.within(Capacity(300, 100)) == [made.system, OWN[0], OWN[3]]
    assert own_prompt().within(Capacity(300, 100)) == [made.system, *OWN]
