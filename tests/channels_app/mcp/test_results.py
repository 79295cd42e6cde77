"""[S1] [S2] [S3]: results over streamable HTTP, by the official Python client."""

import base64
import errno
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from channels_app.agent_sessions import results, sessions
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.base import ChannelError
from channels_app.memory.channel import PLATFORM
from channels_app.webchat import export, transcript
from channels_app.webchat.html import render_as
from core.files import storage
from core.models import ChannelAccount, ChatSession, Delivery, Message, Run, User
from tests.channels_app.mcp.conftest import MakeAgent
from tests.channels_app.mcp.served import Agent
from tests.channels_app.telegram.fake_api import FakeBotApi

Settings = Any
TABLE = "# Report\n\n| Name | Size |\n|------|------|\n| a.py | 12 |\n\n- one\n- **two**"
# All that requirement 4 says of when and how to use the tool.
SAID_TO_AGENTS = (
    *("an analysis, a report", "a table, a list, a summary", "show me the results"),
    *("display what you found", "one clean message than as lines of a terminal", "is Markdown"),
    *("|------|", "```python", "headings, lists, **bold**", "shown formatted"),
    *("a message of its own", "a new message each", "until the session ends", "4000 characters"),
)
NESTED = "````markdown\nBefore\n\n```python\nprint('hi')\n```\n\nAfter\n````"


@pytest.fixture
def on_telegram(owner: User, telegram: ChannelAccount) -> ChatSession:
    """Return the owner's session in the bot's private chat."""
    return sessions.open_session(user=owner, account=telegram)


@pytest.fixture
def agent(agent_of: MakeAgent, owner: User, session: ChatSession) -> Agent:
    """Return the owner's agent, in a session on the in-memory channel."""
    return agent_of(owner, session)


@pytest.fixture
def telegram_agent(agent_of: MakeAgent, owner: User, on_telegram: ChatSession) -> Agent:
    """Return the owner's agent, in a session on Telegram."""
    return agent_of(owner, on_telegram)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_tools_are_listed_with_their_instructions(
    agent_of: MakeAgent, owner: User, session: ChatSession, mode: str
) -> None:
    """[D7] [S1] in both generations of the protocol; no tool takes a session."""
    tools = agent_of(owner, session, mode=mode).tools()
    assert set(tools) == {"send_result", "send_file", "list_sessions", "wait_for_reply"}
    text = tools["send_result"].description
    for word in SAID_TO_AGENTS:
        assert word in text
    assert set(tools["send_result"].input_schema["properties"]) == {"content"}
    assert tools["send_result"].input_schema["required"] == ["content"]
    names = {name for tool in tools.values() for name in tool.input_schema["properties"]}
    assert not any("session" in name for name in names)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_result_is_a_message_of_its_own(
    agent_of: MakeAgent, owner: User, session: ChatSession, mode: str
) -> None:
    """[S1] the id is the platform's, and the transcript remembers it."""
    answer = agent_of(owner, session, mode=mode).send(TABLE)
    sent = PLATFORM.find(answer["message_id"])
    assert answer == {"status": "success", "message_id": sent.id}
    assert sent.target.chat == "555"
    assert "a.py" in sent.block["text"]
    assert sent.edits == 0
    assert Message.objects.get(session=session).role == "assistant"


def test_each_result_is_a_new_message(agent: Agent) -> None:
    """[S2] nothing is edited."""
    first, second = agent.send("one"), agent.send("two")
    assert first["message_id"] != second["message_id"]
    assert PLATFORM.texts("555") == ["one", "two"]


def test_a_table_is_sent_in_markdown_v2_that_telegram_accepts(
    telegram_agent: Agent, api: FakeBotApi
) -> None:
    """[S2] [T5]: the fake reads it with TDLib's parser."""
    answer = telegram_agent.send(TABLE)
    assert answer["status"] == "success"
    (call,) = api.of("sendMessage")
    assert call.params["parse_mode"] == "MarkdownV2"
    assert "a.py" in call.params["text"]
    assert ("bold", "two") in call.params["spans"]
    assert any(kind == "pre" and "a.py" in text for kind, text in call.params["spans"])


def test_rx9_telegram_fetches_no_link_of_a_result(telegram_agent: Agent, api: FakeBotApi) -> None:
    """[RX9] Its address may hold words of the conversation: a press alone sends them."""
    telegram_agent.send("See [the page](https://evil.example/?q=secret).")
    (call,) = api.of("sendMessage")
    assert call.params["link_preview_options"] == {"is_disabled": True}


def test_the_outer_fence_goes_and_inner_ones_stay(telegram_agent: Agent, api: FakeBotApi) -> None:
    """[S2]"""
    assert telegram_agent.send(NESTED)["status"] == "success"
    (call,) = api.of("sendMessage")
    assert call.params["text"].split() == ["Before", "print('hi')", "After"]
    assert [kind for kind, _ in call.params["spans"]] == ["pre"]


def test_odd_markdown_arrives_all_the_same(telegram_agent: Agent, api: FakeBotApi) -> None:
    """[S3]"""
    for odd in ("_*[]()~`>#+-=|{}.!\\", "a_b*c", "**open", "[x](", "```", "x\x00y"):
        assert telegram_agent.send(f"x {odd} y")["status"] == "success"
        assert api.of("sendMessage")[-1].params["text"].startswith("x")


def test_text_that_telegram_cannot_parse_is_sent_as_plain_text(
    telegram_agent: Agent, api: FakeBotApi
) -> None:
    """[S3]"""
    api.fail("sendMessage", 400, "Bad Request: can't parse entities: byte offset 1")
    assert telegram_agent.send("**bold** text")["status"] == "success"
    refused, plain = api.of("sendMessage")
    assert refused.params["parse_mode"] == "MarkdownV2"
    assert "parse_mode" not in plain.params
    assert plain.params["text"] == "bold text"


def test_ten_thousand_characters_are_cut_and_say_so(telegram_agent: Agent, api: FakeBotApi) -> None:
    """[S3] truncate: one valid message within the limit, ending with the mark."""
    styled = "**bold** and _more_ " + "plain words, many of them " * 8
    table = "| a | b |\n|---|---|\n" + "| a | b |\n" * 1000
    for unit in ("word ", "😀 ", styled, "```python\nx = 1\n" + "y = 2\n" * 2000, table):
        content = (unit * 10_000)[:10_000]
        assert telegram_agent.send(content)["status"] == "success"
        text = api.of("sendMessage")[-1].params["text"]
        assert text.endswith("… (truncated)")
        assert 3000 < len(text.encode("utf-16-le")) // 2 <= 4096


def test_split_sends_all_of_a_long_result_in_order(
    telegram_agent: Agent, api: FakeBotApi, settings: Settings
) -> None:
    """[S3] by setting; the id is that of the first message."""
    settings.SEND_RESULT_OVERFLOW = "split"
    content = " ".join(str(number) for number in range(2000))
    answer = telegram_agent.send(content)
    texts = [call.params["text"] for call in api.of("sendMessage")]
    assert len(texts) > 1
    assert " ".join(texts).split() == content.split()
    token = next(iter(api.chats))[0]
    assert answer["message_id"] == str(api.shown(token, 555)[0].id)


def test_a_channel_of_plain_texts_says_where_it_was_cut(agent: Agent) -> None:
    """[S3]"""
    assert agent.send("word " * 3000)["status"] == "success"
    (text,) = PLATFORM.texts("555")
    assert text.endswith("… (truncated)")
    assert len(text) <= 4000


def test_an_empty_result_is_an_error_and_nothing_is_sent(
    telegram_agent: Agent, api: FakeBotApi
) -> None:
    """[S3], RM4."""
    for content in ("", "  \n\t", "```\n```", "```markdown\n\n```", "\u200b"):
        answer = telegram_agent.send(content)
        assert answer["status"] == "error"
        assert "message_id" not in answer
    assert not api.of("sendMessage")
    assert not Delivery.objects.exists()


def test_an_unknown_session_is_a_clear_error(agent_of: MakeAgent, owner: User) -> None:
    """[S3]"""
    agent = agent_of(owner)
    for name in ("", "nope", "A" * 22, "' OR 1=1 --"):
        agent.session = name
        answer = agent.send("hello")
        assert answer["status"] == "error"
        assert "session" in answer["message"]


def test_another_persons_session_does_not_exist(
    agent_of: MakeAgent, guest: User, session: ChatSession
) -> None:
    """[S3], RM3: the same error as for an unknown one."""
    answer = agent_of(guest, session).send("hello")
    unknown = agent_of(guest)
    unknown.session = "A" * 22
    assert answer == unknown.send("hello")
    assert PLATFORM.texts("555") == []


def test_a_closed_session_says_that_it_is_closed(agent: Agent, session: ChatSession) -> None:
    """[S3]"""
    sessions.close(session=session)
    answer = agent.send("hello")
    assert answer["status"] == "error"
    assert "closed" in answer["message"]


def test_a_dead_platform_is_an_error_and_sends_nothing_later(
    agent: Agent, settings: Settings
) -> None:
    """[S3]: a result that was reported as not sent is withdrawn from the outbox."""
    settings.SEND_RESULT_SECONDS = 1
    PLATFORM.refusals = [ChannelError("nobody there", retry_after=0.2) for _ in range(200)]
    answer = agent.send("hello")
    PLATFORM.refusals = []
    assert answer["status"] == "error"
    assert "nothing was sent" in answer["message"]
    assert "nobody there" in answer["message"]
    assert Delivery.objects.get().state == Delivery.State.DISMISSED
    assert not Message.objects.exists()
    assert agent.send("again")["status"] == "success"
    assert PLATFORM.texts("555") == ["again"]


@pytest.mark.django_db
def test_s3_the_error_says_that_the_account_is_held(
    session: ChatSession, memory: ChannelAccount
) -> None:
    """Its first message had the reason; those behind it waited for their turn, as it seemed."""
    held = "The platform does not accept the bot token."
    ChannelAccount.objects.filter(id=memory.id).update(deliveries_held=held)
    sent = results.put_text(session=session, content="hello")
    rows = results.current(sent.deliveries)
    assert f"({held}); nothing was sent" in results.not_in_time(rows)


def test_a_refusal_of_the_platform_is_returned_verbatim(agent: Agent) -> None:
    """[S3]"""
    PLATFORM.refusals = [ChannelError("chat not found", permanent=True)]
    answer = agent.send("hello")
    assert answer["status"] == "error"
    assert "chat not found" in answer["message"]


def test_a_slow_platform_is_waited_for_with_progress(agent: Agent) -> None:
    """[D7] long calls report progress."""
    PLATFORM.refusals = [ChannelError("later", retry_after=1.0)]
    assert agent.send("hello")["status"] == "success"
    assert any("Waiting for the platform" in line for line in agent.progress)


def test_a_session_without_a_screen_sends_to_where_its_person_reads(
    agent_of: MakeAgent, owner: User, memory: ChannelAccount
) -> None:
    """[S3] the first UI observer: the last-used channel."""
    User.objects.filter(id=owner.id).update(
        last_account=memory, last_target={"chat": "555", "thread": ""}
    )
    session = sessions.open_session(user=owner, account=builtin_account("http"))
    assert agent_of(owner, session).send("hello")["status"] == "success"
    assert PLATFORM.texts("555") == ["hello"]


@pytest.mark.django_db
def test_s4_results_of_a_session_without_a_screen_leave_the_web_chat_with_it(
    owner: User,
) -> None:
    chat = sessions.open_session(user=owner, account=builtin_account("web"))
    own = results.put_text(session=chat, content="of the chat itself")
    session = sessions.open_session(user=owner, account=builtin_account("http"))
    results.put_text(session=session, content="hello")
    assert chat.runs.count() == 2
    sessions.close(session=session)
    assert [run.public_id for run in chat.runs.all()] == [own.message_id]
    assert [row.shown for row in Message.objects.filter(session=chat)] == ["of the chat itself"]


def test_a_session_without_a_screen_or_an_observer_is_skipped_and_says_so(
    agent_of: MakeAgent, owner: User
) -> None:
    """[S3]"""
    session = sessions.open_session(user=owner, account=builtin_account("http"))
    answer = agent_of(owner, session).send("hello")
    assert answer["status"] == "error"
    assert answer["message"].startswith("Skipped")


def test_a_result_in_the_web_chat_is_an_answer_of_its_own(agent_of: MakeAgent, owner: User) -> None:
    """[S3] the web chat is a screen; its log holds the Markdown."""
    session = sessions.open_session(user=owner, account=builtin_account("web"), title="Build")
    answer = agent_of(owner, session).send(TABLE)
    run = Run.objects.get(public_id=answer["message_id"])
    assert (run.session, run.state) == (session, Run.State.SUCCEEDED)
    assert run.result["text"] == TABLE
    assert "a.py" in "".join(event.data for event in run.events.all())


@pytest.mark.django_db
def test_s3_a_result_in_the_web_chat_is_marked_as_one_of_an_agent(owner: User) -> None:
    """For the person, after a reload and in the chat's file; and for the model."""
    chat = sessions.open_session(user=owner, account=builtin_account("web"), title="Chat")
    hidden = sessions.open_session(user=owner, account=builtin_account("http"))
    results.put_text(session=hidden, content="The disk is full.")
    run = Run.objects.get(session=chat)
    (turn,) = transcript.page(session=chat)["turns"]
    assert turn["answer"]["from_agent"]
    assert turn["answer"]["text"] == "The disk is full."
    live = transcript.final(user_id=owner.id, run_id=run.public_id, seq=run.last_seq)
    assert live is not None
    assert live["from_agent"]
    written = export.as_markdown(session=chat, address=str)
    assert "## From an agent · " in written
    assert "Assistant" not in written
    assert "information, never" not in written
    assert Message.objects.get(session=chat).text.startswith("(An agent of this person sent")


def test_a_file_is_sent_by_upload_or_by_id_never_by_path(agent: Agent, owner: User) -> None:
    """[D7] send_file."""
    content = base64.b64encode(b"a,b\n1,2\n").decode()
    answer = agent.call(
        "send_file", name="../../etc/data.csv", content_base64=content, caption="Numbers"
    )
    sent = PLATFORM.find(answer["message_id"])
    assert sent.file is not None
    assert (sent.file.name, sent.file.content) == ("data.csv", b"a,b\n1,2\n")
    assert sent.file.caption == "Numbers"
    stored = storage.keep(user=owner, name="x.txt", content=b"x")
    assert agent.call("send_file", file_id=stored.public_id)["status"] == "success"
    for wrong in ({"file_id": "/etc/passwd"}, {"file_id": "A" * 22}, {}, {"content_base64": "%"}):
        assert agent.call("send_file", **wrong)["status"] == "error"


def test_an_agent_gets_the_reason_when_the_disk_is_full(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[D7]"""

    @storage.disk_failures()
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage, "append", full)
    content = base64.b64encode(b"x").decode()
    answer = agent.call("send_file", name="a.txt", content_base64=content)
    assert answer == {"status": "error", "message": str(storage.NOT_STORED)}
    assert not PLATFORM.sent


def test_the_name_of_a_file_is_no_markdown_in_the_web_chat(
    agent_of: MakeAgent, owner: User
) -> None:
    """[D7]"""
    session = sessions.open_session(user=owner, account=builtin_account("web"))
    for name in ("_notes_.txt", "my_notes.txt"):
        content = base64.b64encode(b"x").decode()
        answer = agent_of(owner, session).call("send_file", name=name, content_base64=content)
        said = Run.objects.get(public_id=answer["message_id"]).result
        assert name in render_as(text=said["text"], format=said["format"])


@pytest.mark.parametrize("caption", ["w" * 1025, "🙂" * 513])
def test_a_long_caption_follows_its_file_as_a_message(agent: Agent, caption: str) -> None:
    """[D7] [T7] Platforms cut captions; in UTF-16 units, so that an emoji counts as two."""
    content = base64.b64encode(b"x").decode()
    first = agent.call("send_file", name="a.txt", content_base64=content, caption=caption[:512])
    assert [each.file and each.file.caption for each in PLATFORM.sent] == [caption[:512]]
    assert first["status"] == "success"
    agent.call("send_file", name="b.txt", content_base64=content, caption=caption)
    _, named, words = PLATFORM.sent
    assert named.file is not None
    assert (named.file.name, named.file.caption) == ("b.txt", "b.txt")
    assert words.block["text"] == caption


def test_another_persons_file_does_not_exist(agent: Agent, guest: User) -> None:
    """[D7] RF7."""
    stored = storage.keep(user=guest, name="secret.txt", content=b"secret")
    answer = agent.call("send_file", file_id=stored.public_id)
    assert answer == {"status": "error", "message": "There is no file with this file_id."}


def test_the_sessions_of_the_person_are_listed(
    agent: Agent, guest: User, session: ChatSession, memory: ChannelAccount
) -> None:
    """[D7] only their own; the current one is marked."""
    sessions.open_session(user=guest, account=memory)
    (found,) = agent.call("list_sessions")["sessions"]
    assert found["id"] == session.public_id
    assert (found["title"], found["channel"], found["current"]) == ("Build", "memory", True)


def test_an_unknown_tool_is_invalid_params(agent: Agent) -> None:
    """RM10."""
    with pytest.raises(MCPError) as caught:
        agent.call("no_such_tool")
    assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("send_result", {}, "content"),
        ("send_result", {"content": 5}, "content"),
        ("send_result", {"content": "x", "session_id": "y"}, "session_id"),
        ("wait_for_reply", {"timeout_seconds": -1}, "timeout_seconds"),
    ],
)
def test_s1_wrong_arguments_are_a_result_that_the_model_reads(
    agent: Agent, tool: str, arguments: dict[str, Any], field: str
) -> None:
    """[S1] RM10. A protocol error reaches the program alone (MCP's SEP-1303)."""
    answer = agent.call(tool, **arguments)
    assert answer["status"] == "error"
    assert answer["message"].startswith(f"{field}: ")
    assert PLATFORM.texts("555") == []


def test_a_link_that_imitates_the_system_gets_no_button(
    telegram_agent: Agent, api: FakeBotApi
) -> None:
    """RM8."""
    assert telegram_agent.send("[Approve](https://evil.example/?approve:17)")["status"] == "success"
    assert "reply_markup" not in api.of("sendMessage")[0].params
