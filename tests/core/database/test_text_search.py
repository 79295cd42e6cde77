"""Search in the messages of one person: the same words find the same, with and without an index."""

from functools import partial

import pytest
from django.db import ProgrammingError, connection

from core.conversations import inbox, sessions
from core.database import text_search
from core.models import ChannelAccount, ChatSession, Message, User
from tests.plans import analyse, listening
from tests.settings import TEST_DATABASE

TEXTS = [
    "Plan the garden: tomatoes, beans",
    "Москва — столица.",
    'Grüße aus KÖLN, 100 % "echt" und a_b',
    "Ο ΛΟΓΟΣ του Σωκράτης",
    "我今天去北京了",
    "C:\\path\\to 'file' \U0001f600 emoji",
    "short ab",
    "İstanbul ve DİYARBAKIR, ısparta",
    "Cafe\u0301 und Müller",
    "Die Hauptstraße ist weiß",
    "Ein Maßkrug",
]
FOUND = [
    ("tomato", 0),
    ("TOMATOES", 0),
    ("garden: tom", 0),
    ("москва", 1),
    ("СТОЛИЦА", 1),
    ("köln", 2),
    ("GRÜSSE", 2),
    ("grüsse", 2),
    ("grüße", 2),
    ("100 %", 2),
    ('"ECHT"', 2),
    ("a_b", 2),
    ("axb", None),
    ("λογος", 3),
    ("λογοσ", 3),
    ("σωκρατης", None),
    ("ΣΩΚΡΆΤΗΣ", 3),
    ("去北京", 4),
    ("北京", 4),
    ("c:\\PATH", 5),
    ("'file'", 5),
    ("\U0001f600 e", 5),
    ("ab", 6),
    ("istanbul", 7),
    ("İSTANBUL", 7),
    ("i\u0307stanbul", 7),
    ("Istanbul", 7),
    ("diyarbakır", 7),
    ("ISPARTA", 7),
    ("caf\xe9", 8),
    ("CAFÉ UND", 8),
    ("mu\u0308ller", 8),
    ("muller", None),
    ("hauptstras", 9),
    ("se ist", 9),
    ("ptstras", 9),
    ("trasse i", 9),
    ("HAUPTSTRASSE", 9),
    ("weiss", 9),
    ("weis", 9),
    ("mas", 10),
    ("skrug", 10),
    ("maSSkrug", 10),
    ("potatoes", None),
]


@pytest.fixture
def chats(account: ChannelAccount, user: User) -> list[ChatSession]:
    """Return a chat of the person with each of TEXTS; another person has said all of them."""
    other = inbox.open_session(user=User.objects.create(username="bob"), account=account, chat="b")
    mine = [inbox.open_session(user=user, account=account) for _ in TEXTS]
    for chat, text in zip(mine, TEXTS, strict=True):
        Message.objects.create(session=chat, role="user", text=text)
        Message.objects.create(session=other, role="user", text=text)
    return mine


# PostgreSQL keeps its index itself, where it has one.
@pytest.fixture(params=["read", "indexed"] if TEST_DATABASE == "sqlite" else ["read"])
def state(request: pytest.FixtureRequest, chats: list[ChatSession]) -> str:
    """Return whether the messages were indexed."""
    if request.param == "indexed":
        assert text_search.catch_up(batches=1000) > 0
    return str(request.param)


@pytest.mark.parametrize(("words", "place"), FOUND)
def test_the_same_words_find_the_same_however_they_are_looked_for(
    words: str,
    place: int | None,
    state: str,
    chats: list[ChatSession],
    user: User,
    account: ChannelAccount,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found() -> list[int]:
        rows = sessions.search(user=user, channel=account.channel, words=words)
        return [chat.id for chat, _, _ in rows]

    expected = [] if place is None else [chats[place].id]
    assert found() == expected
    if state == "read":
        monkeypatch.setattr(text_search, "has_fts_table", lambda: False)
    monkeypatch.setattr(sessions, "SEARCHED", 0)  # the last messages are not read
    assert found() == expected


def test_an_excerpt_begins_where_the_words_are_also_behind_letters_that_fold_to_two(
    user: User, account: ChannelAccount
) -> None:
    chat = inbox.open_session(user=user, account=account)
    Message.objects.create(session=chat, role="user", text="ßİ" * 60 + " go to İstanbul now")
    [(_, _, excerpt)] = sessions.search(user=user, channel=account.channel, words="istanbul")
    assert excerpt == "…go to İstanbul now"


def test_words_that_only_the_model_is_told_are_neither_found_nor_shown(
    state: str,
    chats: list[ChatSession],
    user: User,
    account: ChannelAccount,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Message.objects.create(session=chats[0], role="assistant", text="A plum tree")
    told.tell_model("(A note of the gateway)\n\nA plum tree")
    told.save()
    if state == "indexed":
        text_search.catch_up()
    else:
        monkeypatch.setattr(text_search, "has_fts_table", lambda: False)
    for newest in (sessions.SEARCHED, 0):
        monkeypatch.setattr(sessions, "SEARCHED", newest)
        search = partial(sessions.search, user=user, channel=account.channel)
        assert search(words="gateway") == []
        assert [excerpt for _, _, excerpt in search(words="plum")] == ["A plum tree"]


def indexed() -> set[int]:
    """Return the messages that SQLite's index finds by the words of this test."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rowid FROM core_search WHERE core_search MATCH '\"qqz\"'")
        return {row[0] & text_search.MESSAGE_MASK for row in cursor.fetchall()}


needs_fts = pytest.mark.skipif(
    TEST_DATABASE != "sqlite", reason="PostgreSQL removes entries of an index with their row"
)


@pytest.mark.skipif(TEST_DATABASE != "postgres", reason="SQLite has tests of its own below")
def test_postgresql_has_the_index_where_it_has_the_extension(
    user: User, session: ChatSession
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'")
        has_extension = cursor.fetchone() is not None
    assert text_search.has_index() == has_extension
    if not has_extension:
        return
    others = User.objects.create(username="bob")
    chat = inbox.open_session(user=others, account=session.account, chat="b")
    rows = [
        Message(session=each, role="user", text=f"number {number}")
        for number in range(5000)
        for each in (session, chat)
    ]
    Message.objects.bulk_create(rows)
    with connection.cursor() as cursor:
        cursor.execute("SELECT gin_clean_pending_list(%s::regclass)", [text_search.INDEX])
    analyse()
    with listening() as asked:
        found = text_search.in_all(user_id=user.pk, sessions=[session.pk], words="number 4321")
    assert found == {session.pk: Message.objects.get(session=session, text="number 4321").pk}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {asked[-1].sql}", asked[-1].params)
        assert text_search.INDEX in str(cursor.fetchall())


@pytest.fixture
def said(session: ChatSession) -> Message:
    """Return a message that was indexed."""
    made = Message.objects.create(session=session, role="user", text="say qqz")
    assert text_search.catch_up(batches=1000)
    assert indexed() == {made.pk}
    return made


@needs_fts
@pytest.mark.parametrize("what", ["message", "chat", "person"])
def test_deleted_texts_are_removed_from_the_index(
    what: str, said: Message, session: ChatSession
) -> None:
    if what == "message":
        said.delete()
    elif what == "chat":
        sessions.delete(session=session)
    else:
        session.user.delete()
    assert indexed() == set()


@needs_fts
def test_a_changed_text_is_found_by_its_new_words(said: Message) -> None:
    Message.objects.filter(pk=said.pk).update(text="say nothing")
    assert indexed() == set()
    Message.objects.filter(pk=said.pk).update(text="once more QQZ", role="assistant")
    assert indexed() == {said.pk}
    Message.objects.filter(pk=said.pk).update(role="user")
    assert indexed() == {said.pk}


@needs_fts
def test_a_message_that_is_not_indexed_yet_is_changed_and_deleted_as_well(
    said: Message, session: ChatSession
) -> None:
    late = Message.objects.create(session=session, role="user", text="late qqz")
    Message.objects.filter(pk=late.pk).update(text="later qqz")
    assert indexed() == {said.pk}
    text_search.catch_up()
    assert indexed() == {said.pk, late.pk}
    late.delete()
    assert text_search.catch_up() == 0
    assert indexed() == {said.pk}


@needs_fts
def test_migrations_leave_the_index_and_its_triggers_in_place(said: Message) -> None:
    """They are removed before: SQLite renames no table while a trigger refers to a missing one."""
    assert text_search.has_fts_table()
    text_search.release()
    assert not text_search.has_fts_table()
    text_search.prepare()
    assert text_search.has_fts_table()
    said.delete()
    assert indexed() == set()


@needs_fts
def test_messages_are_indexed_whose_ids_were_used_before(
    said: Message, session: ChatSession
) -> None:
    """A migration that replaces the table gives ids again that deleted messages had."""
    text_search.catch_up()
    number = said.pk
    said.delete()
    text_search.release()
    text_search.prepare()  # as after a migration
    Message.objects.create(pk=number, session=session, role="user", text="again qqz")
    assert text_search.catch_up() == 1
    assert indexed() == {number}


@pytest.fixture
def without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the database permits none."""
    monkeypatch.setattr(text_search, "has_fts_table", lambda: False)
    monkeypatch.setattr(text_search, "has_index", lambda: False)


@pytest.mark.usefixtures("without_index")
def test_the_owner_is_told_of_a_missing_index_where_it_is_needed(
    session: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert text_search.problem() == ""
    Message.objects.create(session=session, role="user", text="x")
    monkeypatch.setattr(text_search, "NEEDED_FROM", 1)
    assert text_search.problem().startswith("The search in chats has no index: ")
    monkeypatch.setattr(text_search, "has_fts_table", lambda: True)
    monkeypatch.setattr(text_search, "has_index", lambda: True)
    assert text_search.problem() == ""


def test_a_database_that_permits_no_index_is_logged_and_migrates(
    db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused() -> None:
        raise ProgrammingError('permission denied to create extension "pg_trgm"\nHINT: …')

    monkeypatch.setattr(text_search, "prepare_sqlite", refused)
    monkeypatch.setattr(text_search, "prepare_postgresql", refused)
    text_search.prepare()
    assert "permission denied to create extension" in caplog.text
    assert "HINT" not in caplog.text


def test_the_trigrams_of_words_cover_all_of_them() -> None:
    assert text_search.match("abc") == '"abc"'
    assert text_search.match("abcd") == '"abc" AND "bcd"'
    assert text_search.match("abcdef") == '"abc" AND "def"'
    assert text_search.match("istanbul") == '"sta" AND "nbu" AND "bul"'
    assert text_search.match("hauptstrasse") == '"hau" AND "pts" AND "tra"'
    assert text_search.match("stras") == '"tra"'
    assert text_search.match("strasse") == '"tra"'
    assert text_search.match("ist") == ""
    assert text_search.match('a"bc') == '"a""b" AND """bc"'
