"""Decisions about calls: whose, about which call, what they hold for, and what is shown of them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from allowlist.models import ApiKey, AuditEntry
from channels_app.tool_requests import asking, deciding
from channels_app.tool_requests.deciding import Decision
from core.conversations.tool_calls import digest_of
from core.lib import encryption
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    McpServer,
    McpSignIn,
    McpTool,
    Run,
    RunPause,
    ToolCall,
    ToolGrant,
    ToolRule,
    User,
)
from core.signals import pubsub
from core.tools import registry
from core.tools.current_time import CurrentTime
from tests.plans import listening
from tests.statements import before_each

pytestmark = pytest.mark.django_db
State = ToolCall.State
NOW = timezone.now().replace(microsecond=0)
HOUR = timedelta(hours=1)
TO_BOB, TO_CAROL = '{"to":"bob"}', '{"to":"carol"}'
PAUSED = 'FROM "core_runpause"'
Put = Callable[..., ToolCall]


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create(username="owner", is_owner=True)


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create(username="ada", display_name="Ada")


@pytest.fixture
def run(ada: User) -> Run:
    """Return a run of Ada's that ended with questions."""
    account = ChannelAccount.objects.create(channel="memory", name="main")
    session = ChatSession.objects.create(user=ada, account=account, chat="42")
    return Run.objects.create(session=session, user=ada, state="succeeded", text="send it")


@pytest.fixture
def put(run: Run, owner: User) -> Put:
    """Return ``put(columns…)``: it stores a question to the owner, shown in a chat."""

    def make(**columns: Any) -> ToolCall:
        values: dict[str, Any] = {"run": run, "tool": "send", "arguments": TO_BOB}
        values |= {"call_id": str(ToolCall.objects.count()), "state": State.WAITING}
        values |= {"asked_of": owner, **columns}
        values.setdefault("digest", digest_of(values["tool"], values["arguments"]))
        values.setdefault("expires_at", NOW + HOUR)
        RunPause.objects.get_or_create(run=values["run"])
        row = ToolCall.objects.create(**values)
        Delivery.objects.create(
            account=run.session.account,
            conversation="c",
            dedupe_key=f"tool:{row.public_id}:{owner.pk}",
            target={"chat": "1"},
            payload={"text": "May I?"},
        )
        return row

    return make


def decided(row: ToolCall, by: User, choice: deciding.Choice = "once", **more: Any) -> Decision:
    """Decide a call."""
    values = {"digest": row.digest, "via": "test", "now": NOW, **more}
    return deciding.decide(call_id=row.public_id, by=by, choice=choice, **values)


def fresh(row: ToolCall) -> ToolCall:
    """Return a call as it is stored."""
    return ToolCall.objects.get(pk=row.pk)


def shown(row: ToolCall) -> str:
    """Return the last line of a question, where it was asked."""
    notice = Delivery.objects.get(dedupe_key__startswith=f"tool:{row.public_id}:")
    return str(notice.payload["text"]).splitlines()[-1]


def goes_on(run: Run) -> bool:
    """Return whether a run was made that goes on with a paused one."""
    return RunPause.objects.get(run=run).continued_by_id is not None


@pytest.mark.parametrize("word", ["once", "hour", "always", "deny"])
def test_only_a_choice_that_there_is_can_be_made(word: str) -> None:
    assert deciding.known_choice(word) == word
    assert deciding.known_choice(f"{word}!") is None


# -- owners ------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["demoted", "off", "deleted"])
def test_a_question_to_a_former_owner_is_asked_of_another(
    put: Put, owner: User, ada: User, gone: str
) -> None:
    """It waited until it expired. A person's own question stays theirs."""
    row, own = put(), put(of_person=True, asked_of=ada)
    if gone == "deleted":
        owner.delete()
    else:
        owner.is_owner, owner.is_active = gone != "demoted", gone != "off"
        owner.save()
    deciding.look(now=NOW)  # there is no other one yet
    other = User.objects.create(username="other", is_owner=True, only_listed=True)
    ChatSession.objects.create(user=other, account=row.run.session.account, chat="7")
    deciding.look(now=NOW)
    deciding.look(now=NOW)
    assert (fresh(row).asked_of, fresh(own).asked_of) == (other, ada)
    notice = Delivery.objects.get(dedupe_key=f"tool:{row.public_id}:{other.pk}")
    assert notice.target["chat"] == "7"
    assert decided(row, other).outcome == "allowed"


# -- outcomes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["once", "deny"])
def test_a_decision_is_carried_out_shown_and_recorded(
    run: Run,
    put: Put,
    owner: User,
    choice: deciding.Choice,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    told: list[pubsub.Frame] = []
    monkeypatch.setattr(pubsub, "publish", told.extend)
    row = put()
    with django_capture_on_commit_callbacks(execute=True):
        found = decided(row, owner, choice)
    state = "denied" if choice == "deny" else "allowed"
    assert (found.outcome, found.text) == (state, f"{state.capitalize()}.")
    assert found.call is not None
    assert (found.call.pk, found.call.state) == (row.pk, state)
    assert (fresh(row).state, fresh(row).decided_by_id) == (state, owner.pk)
    assert shown(row) == {"allowed": "✓ Allowed.", "denied": "✗ Denied."}[state]
    assert goes_on(run)
    assert {"keys": ["desk"], "kind": "waiting"} in told
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.subject) == ("owner", f"tool.{state}", "send")
    assert entry.at == NOW
    assert entry.data == {
        "via": "test",
        "call": row.public_id,
        "person": "ada",
        "scope": "once" if state == "allowed" else "",
        "edited": False,
        "hash": row.digest,
    }


def test_the_record_has_the_beginning_of_the_name_of_a_tool(put: Put, owner: User) -> None:
    decided(put(tool="s" * 128), owner)
    subject = AuditEntry.objects.get().subject
    assert (len(subject), subject[:99]) == (100, "s" * 99)


def test_nothing_is_looked_up_for_a_text_that_is_no_id(owner: User) -> None:
    """PostgreSQL takes no NUL."""
    name = "A" * 21 + "\0"
    with listening() as sent:
        found = deciding.decide(
            call_id=name, digest="0" * 64, by=owner, choice="once", via="test", now=NOW
        )
        assert (found.outcome, deciding.page_link(name)) == ("gone", "")
    assert sent == []


@pytest.mark.parametrize("name", ["", "x", "A" * 22, "A" * 23])
def test_a_call_that_does_not_exist_is_gone(owner: User, name: str) -> None:
    found = deciding.decide(
        call_id=name, digest="0" * 64, by=owner, choice="once", via="test", now=NOW
    )
    assert (found.outcome, found.call) == ("gone", None)
    assert found.text == "This question does not exist any more."


@pytest.mark.parametrize(
    ("of_person", "who", "may"),
    [
        pytest.param(False, {"is_owner": True}, True, id="another owner"),
        pytest.param(False, {"is_owner": True, "is_active": False}, False, id="inactive owner"),
        pytest.param(False, {"is_staff": True}, False, id="no owner"),
        pytest.param(False, "asked", False, id="who was asked, of the owner's yes"),
        pytest.param(True, "asked", True, id="who was asked"),
        pytest.param(True, {"is_owner": True}, False, id="an owner, of another's yes"),
        pytest.param(True, {}, False, id="another guest"),
        pytest.param(True, "asked, inactive", False, id="who was asked, inactive"),
    ],
)
def test_a_yes_is_an_owners_or_of_the_person_that_it_belongs_to(
    put: Put, ada: User, of_person: bool, who: dict[str, bool] | str, may: bool
) -> None:
    by = ada
    if isinstance(who, dict):
        by = User.objects.create(username="eve", **who)
    elif who == "asked, inactive":
        by = User(pk=ada.pk, username="ada", is_active=False)
    row = put(of_person=of_person, asked_of=ada)
    found = decided(row, by, "always")
    assert found.outcome == ("allowed" if may else "not_yours")
    assert found.call is not None
    assert fresh(row).state == ("allowed" if may else "waiting")
    assert ToolGrant.objects.count() == may
    assert AuditEntry.objects.count() == may


@pytest.mark.parametrize(
    ("columns", "outcome"),
    [
        ({"state": State.WITHDRAWN}, "withdrawn"),
        ({"state": State.WITHDRAWN, "expires_at": NOW - HOUR}, "withdrawn"),
        ({"state": State.EXPIRED}, "expired"),
        ({"expires_at": NOW}, "expired"),
        ({"expires_at": NOW + timedelta(microseconds=1)}, None),
        ({"expires_at": None}, None),
        ({"state": State.ALLOWED}, "already"),
        ({"state": State.DENIED, "expires_at": NOW - HOUR}, "already"),
        ({"state": State.STARTED}, "already"),
        ({"state": State.DONE, "expires_at": None}, "already"),
        ({"state": State.UNSURE}, "already"),
    ],
)
@pytest.mark.parametrize("choice", ["always", "deny"])
def test_a_question_that_is_over_is_not_decided(
    run: Run,
    put: Put,
    owner: User,
    columns: dict[str, Any],
    outcome: str | None,
    choice: deciding.Choice,
) -> None:
    row = put(**columns)
    found = decided(row, owner, choice)
    if outcome is None:
        assert found.outcome == ("denied" if choice == "deny" else "allowed")
        return
    assert (found.outcome, found.text) == (outcome, deciding.TEXTS[outcome])
    assert fresh(row).state == row.state
    assert shown(row) == "May I?"
    assert not goes_on(run)
    assert not ToolGrant.objects.exists()
    assert not AuditEntry.objects.exists()


def test_of_two_decisions_at_once_the_first_counts(put: Put, owner: User) -> None:
    row = put()
    first = ToolCall.objects.filter(pk=row.pk)
    with before_each(PAUSED, lambda: first.update(state=State.DENIED)):
        found = decided(row, owner)
    assert found.outcome == "already"
    assert found.call is not None
    assert (found.call.state, fresh(row).state) == ("denied", "denied")


def test_a_question_whose_chat_is_deleted_meanwhile_is_gone(put: Put, owner: User) -> None:
    row = put()
    with before_each(PAUSED, lambda: ToolCall.objects.filter(pk=row.pk).delete()):
        assert decided(row, owner).outcome == "gone"


@pytest.mark.parametrize(
    ("cut", "outcome"), [(64, "allowed"), (16, "allowed"), (15, "changed"), (0, "changed")]
)
def test_a_decision_is_about_the_call_that_was_shown(
    put: Put, owner: User, cut: int, outcome: str
) -> None:
    """A button has 16 digits of the hash."""
    row = put()
    other = digest_of("send", TO_CAROL)
    assert decided(row, owner, digest=other).outcome == "changed"
    assert decided(row, owner, digest=other[:16]).outcome == "changed"
    assert decided(row, owner, digest=row.digest[1:17]).outcome == "changed"
    assert fresh(row).state == "waiting"
    assert decided(row, owner, digest=row.digest[:cut]).outcome == outcome


# -- edited arguments --------------------------------------------------------------------------


def text_of(characters: int) -> str:
    """Return a JSON object of so many characters."""
    return '{"to":"' + "x" * (characters - 9) + '"}'


@pytest.mark.parametrize(
    ("arguments", "is_right"),
    [
        (TO_CAROL, True),
        ("{}", True),
        (text_of(50_000), True),
        (text_of(50_001), False),
        ('{"a":' * 254 + "1" + "}" * 254, True),
        ('{"a":' * 255 + "1" + "}" * 255, False),
        ('{"a":' * 2000 + "1" + "}" * 2000, False),
        ("[1]", False),
        ("1", False),
        ("null", False),
        ("", False),
        ('{"to":', False),
        ("\ud800", False),
    ],
)
def test_edited_arguments_are_a_json_object_of_a_bearable_size_and_depth(
    run: Run, put: Put, owner: User, arguments: str, is_right: bool
) -> None:
    row = put()
    found = decided(row, owner, arguments=arguments)
    assert found.outcome == ("allowed" if is_right else "invalid")
    row = fresh(row)
    if not is_right:
        assert found.text == "The arguments must be a JSON object."
        assert (row.state, row.arguments) == ("waiting", TO_BOB)
        assert not goes_on(run)
        return
    assert (row.arguments, row.edited, row.scope) == (arguments, True, "once")
    data = AuditEntry.objects.get().data
    assert (data["edited"], data["hash"]) == (True, digest_of("send", arguments))


# -- how long a yes holds ----------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["once", "hour", "always"])
def test_a_yes_holds_for_as_long_as_it_says(put: Put, owner: User, choice: Any) -> None:
    row = put()
    assert decided(row, owner, choice).outcome == "allowed"
    assert fresh(row).scope == choice
    grants = list(ToolGrant.objects.values_list("session", "created_by"))
    session = row.run.session_id if choice == "hour" else None
    assert grants == ([] if choice == "once" else [(session, owner.pk)])


@pytest.mark.parametrize("choice", ["once", "hour", "always"])
def test_a_yes_to_one_of_those_whom_an_open_list_lets_in_is_for_the_call_alone(
    run: Run, put: Put, owner: User, ada: User, choice: Any
) -> None:
    ToolRule.objects.create(tool="send", ask="first")
    User.objects.filter(pk=ada.pk).update(only_listed=False)
    message(run)
    row = put()
    assert decided(row, owner, choice).outcome == "allowed"
    assert fresh(row).scope == "once"
    assert not ToolGrant.objects.exists()


def message(run: Run, sender: str = "stranger", chat: str = "42") -> InboundMessage:
    """Store the message of a run."""
    return InboundMessage.objects.create(
        run=run,
        account=run.session.account,
        session=run.session,
        kind="im",
        sender=sender,
        chat=chat,
        received_at=NOW,
    )


@pytest.mark.parametrize("is_listed", [True, False])
def test_in_a_group_a_yes_needs_the_group_on_the_list_too(
    run: Run, put: Put, owner: User, ada: User, is_listed: bool
) -> None:
    chat = "-7"
    ChatSession.objects.filter(pk=run.session_id).update(chat=chat)
    for value in ("556", chat)[: 1 + is_listed]:
        ChannelIdentity.objects.create(user=ada, kind="im", value=value)
    message(run, sender="556", chat=chat)
    assert decided(put(), owner, "always").outcome == ("allowed" if is_listed else "gone")
    assert ToolGrant.objects.count() == is_listed


class First(CurrentTime):
    """A tool that asks the first time."""

    name = "send"
    ask = "first"


class Always(CurrentTime):
    """One that asks each time."""

    name = "send"
    ask = "always"


@pytest.mark.parametrize(
    ("declared", "rule", "lasts"),
    [
        ("first", None, True),
        ("always", None, False),
        ("unknown", None, False),
        ("first", "always", False),
        ("always", "first", True),
        ("unknown", "first", True),
        ("first", "never", False),
        ("first of a server", None, True),
        ("always of a server", None, False),
        ("first of a server", "always", False),
    ],
)
def test_a_plain_yes_to_a_tool_that_asks_the_first_time_is_for_ever(
    put: Put,
    owner: User,
    monkeypatch: pytest.MonkeyPatch,
    declared: str,
    rule: str | None,
    lasts: bool,
) -> None:
    """Of a tool of an MCP server, too: those that only read ask so."""
    tools = {"first": First(), "always": Always()}
    monkeypatch.setattr(registry, "get", {"send": tools.get(declared)}.get)
    if declared.endswith("of a server"):
        server = McpServer.objects.create(name="Notes", slug="notes", url="https://notes.test")
        made = {"server": server, "enabled": True, "accepted_hash": "h", "offered_hash": "h"}
        ask = declared.partition(" ")[0]
        McpTool.objects.create(name="send", call_name="send", ask=ask, **made)
        McpTool.objects.create(name="a", call_name="a", ask="always", **made)
    if rule is not None:
        ToolRule.objects.create(tool="send", ask=rule)
        ToolRule.objects.create(tool="send", ask="off", user=owner)
    row = put()
    assert decided(row, owner).outcome == "allowed"
    assert fresh(row).scope == ("always" if lasts else "once")
    assert ToolGrant.objects.count() == lasts


def test_a_first_yes_that_is_no_plain_one_is_not_for_ever(put: Put, owner: User) -> None:
    ToolRule.objects.create(tool="send", ask="first")
    edited, same, hour = put(), put(), put()
    decided(edited, owner, arguments=TO_CAROL)
    decided(same, owner, arguments=TO_BOB)
    decided(hour, owner, "hour")
    assert [fresh(each).scope for each in (edited, same, hour)] == ["once", "once", "hour"]
    assert ToolGrant.objects.get().session_id == hour.run.session_id
    denied = put()
    decided(denied, owner, "deny")
    assert (fresh(denied).scope, ToolGrant.objects.count()) == ("", 1)


# -- revoked people ---------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["always", "deny"])
@pytest.mark.parametrize("why", ["inactive", "key", "identity"])
def test_nothing_is_done_for_a_revoked_person(
    run: Run, put: Put, owner: User, ada: User, choice: Any, why: str
) -> None:
    """All questions of the conversation are taken back, and say so; those of others wait."""
    other = ChatSession.objects.create(user=owner, account=run.session.account, chat="9")
    theirs = put(run=Run.objects.create(session=other, user=owner, state="succeeded"))
    row, beside = put(), put()
    if why == "inactive":
        User.objects.filter(pk=ada.pk).update(is_active=False)
    elif why == "key":
        Run.objects.filter(pk=run.pk).update(via_key=12345)
    else:
        message(run)
    found = decided(row, owner, choice)
    assert found.outcome == "gone"
    assert found.call is not None
    assert [fresh(each).state for each in (row, beside, theirs)] == [
        "withdrawn",
        "withdrawn",
        "waiting",
    ]
    assert [shown(each) for each in (row, beside, theirs)] == [
        "The question was taken back.",
        "The question was taken back.",
        "May I?",
    ]
    assert not goes_on(run)
    assert not ToolGrant.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_key_counts_at_the_moment_of_the_decision(run: Run, put: Put, owner: User) -> None:
    key = ApiKey.objects.create(user=run.user, prefix="p", digest="d", expires_at=NOW)
    Run.objects.filter(pk=run.pk).update(via_key=key.pk)
    row = put()
    assert decided(row, owner, now=NOW - HOUR).outcome == "allowed"
    assert decided(put(), owner, now=NOW).outcome == "gone"


# -- sign-ins ----------------------------------------------------------------------------------


@pytest.fixture
def sign_in(ada: User) -> McpSignIn:
    """Return a sign-in that was begun."""
    server = McpServer.objects.create(name="Notes", slug="notes", url="https://notes.test")
    sealed = encryption.encrypt({"verifier": "v"})
    return McpSignIn.objects.create(server=server, user=ada, expires_at=NOW + HOUR, secrets=sealed)


def test_a_call_that_needs_a_sign_in_has_no_other_yes(
    run: Run, put: Put, ada: User, sign_in: McpSignIn
) -> None:
    row = put(kind="sign_in", sign_in=sign_in, of_person=True, asked_of=ada)
    for choice in ("once", "hour", "always"):
        found = decided(row, ada, choice)
        assert (found.outcome, found.call) == ("sign_in", row)
    assert found.text == "This waits for a sign-in: open its link."
    assert (fresh(row).state, shown(row)) == ("waiting", "May I?")
    assert not goes_on(run)


def test_a_sign_in_that_is_declined_ends_for_all_calls_that_wait_for_it(
    run: Run, put: Put, ada: User, sign_in: McpSignIn
) -> None:
    other = McpSignIn.objects.create(server=sign_in.server, user=ada, expires_at=NOW + HOUR)
    columns = {"kind": "sign_in", "of_person": True, "asked_of": ada}
    row, second = (put(sign_in=sign_in, **columns) for _ in range(2))
    done = put(sign_in=sign_in, state=State.DONE, **columns)
    another = put(sign_in=other, **columns)
    elsewhere = Run.objects.create(session=run.session, user=ada, state="succeeded")
    foreign = put(run=elsewhere, sign_in=sign_in, **columns)
    assert decided(row, ada, "deny").outcome == "denied"
    rows = (row, second, done, another, foreign)
    assert [fresh(each).state for each in rows] == [
        "denied",
        "denied",
        "done",
        "waiting",
        "waiting",
    ]
    assert fresh(second).decided_by_id == ada.pk
    assert shown(row) == shown(second) == "✗ Not signed in."
    assert shown(another) == shown(foreign) == "May I?"
    sign_in.refresh_from_db()
    other.refresh_from_db()
    assert (sign_in.state, sign_in.secrets, other.state) == ("ended", "", "open")
    assert not goes_on(run)
    assert decided(another, ada, "deny").outcome == "denied"
    assert goes_on(run)


def test_a_sign_in_at_a_server_that_was_deleted_can_be_declined(
    run: Run, put: Put, ada: User
) -> None:
    row, yes = put(kind="sign_in", of_person=True, asked_of=ada), put()
    assert decided(row, ada, "deny").outcome == "denied"
    assert (shown(row), fresh(yes).state) == ("✗ Not signed in.", "waiting")
    assert not goes_on(run)


@pytest.mark.parametrize(
    ("kind", "state", "line"),
    [
        ("yes", State.ALLOWED, "✓ Erlaubt."),
        ("yes", State.DONE, "✓ Erlaubt."),  # and made since
        ("sign_in", State.ALLOWED, "✓ Angemeldet."),
        ("sign_in", State.EXPIRED, "Zu spät: Die Frage ist abgelaufen."),
        ("yes", State.WITHDRAWN, "Die Frage wurde zurückgenommen."),
        ("sign_in", State.WITHDRAWN, "Die Frage wurde zurückgenommen."),
    ],
)
def test_the_end_of_a_question_is_shown_below_it_in_the_language_of_the_asked(
    put: Put, owner: User, kind: str, state: str, line: str
) -> None:
    owner.language = "de"
    row = put(kind=kind, state=state, asked_of=owner)
    deciding.show(row)
    assert shown(row) == line
    text = Delivery.objects.get(dedupe_key__startswith="tool:").payload["text"]
    assert text.splitlines()[0].startswith("🔑" if kind == "sign_in" else "🔐 Darf ich “send”")
    assert text.endswith(f"\n\n{line}")


@pytest.mark.parametrize(
    ("language", "line"),
    [("", "🔐 May I use “web search”?"), ("de", "🔐 Darf ich “die Websuche” verwenden?")],
)
def test_a_question_names_our_own_tools_in_plain_words(
    put: Put, owner: User, language: str, line: str
) -> None:
    row = put(asked_of=owner)
    row.tool = "web_search"
    assert asking.text_of(row, language).splitlines()[0] == line


def test_the_end_of_a_question_to_a_deleted_person_is_shown_in_english(put: Put) -> None:
    row = put(state=State.EXPIRED, asked_of=None)
    deciding.show(row)
    assert shown(row) == "Too late: the question has expired."


# -- taken back, and the chore -----------------------------------------------------------------


def test_questions_that_are_taken_back_say_so(run: Run, put: Put) -> None:
    rows = [put(), put(), put(state=State.ALLOWED)]
    assert deciding.withdraw(session_id=run.session_id + 1) == 0
    assert deciding.withdraw(session_id=run.session_id) == 2
    assert [shown(each) for each in rows] == [
        "The question was taken back.",
        "The question was taken back.",
        "May I?",
    ]
    assert [fresh(each).state for each in rows] == ["withdrawn", "withdrawn", "allowed"]


def test_the_chore_ends_old_questions_and_moves_questions_that_were_not_shown(
    run: Run, put: Put, owner: User, sign_in: McpSignIn
) -> None:
    over, open_one = put(expires_at=NOW), put()
    started = put(state=State.STARTED, carried_out_in=run)
    key = f"tool:{open_one.public_id}:{owner.pk}"
    Delivery.objects.filter(dedupe_key=key).update(state=Delivery.State.DEAD, tries=1)
    McpSignIn.objects.update(expires_at=NOW - timedelta(seconds=1))
    deciding.look(now=NOW - timedelta(seconds=1))
    assert fresh(over).state == "waiting"
    deciding.look(now=NOW)
    assert [fresh(each).state for each in (over, open_one, started)] == [
        "expired",
        "waiting",
        "unsure",
    ]
    assert shown(over) == "Too late: the question has expired."
    assert not Delivery.objects.filter(dedupe_key=key).exists()
    sign_in.refresh_from_db()
    assert sign_in.secrets == ""


def test_the_page_of_a_call_is_behind_a_sign_in(put: Put) -> None:
    row = put()
    page = f"%2Fadmin%2Fcore%2Ftoolcall%2F{row.pk}%2Fdecide%2F"
    assert deciding.page_link(row.public_id) == f"{settings.GATEWAY_URL}/sign-in?next={page}"
    assert deciding.page_link("A" * 22) == ""
    assert deciding.page_link(f"{row.public_id}x") == ""
    assert deciding.page_link("") == ""
