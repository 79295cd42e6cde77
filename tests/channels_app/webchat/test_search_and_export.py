"""Search and export in the web chat; the pages of errors ([D3])."""

from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from core.models import ChatSession, Message, Run, User
from tests.channels_app.webchat.conftest import HOST, event, said, take, text

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def page(ada: User) -> Client:
    """Return a browser in which Ada is signed in."""
    client = Client(HTTP_HOST=HOST)
    client.force_login(ada)
    return client


def chat(user: User, words: str, answer: str, *, channel: str = "web") -> ChatSession:
    """Return a chat of one question that was answered."""
    run = said(user, words, channel=channel)
    pen = take(run.public_id)
    pen.write(event("stream_start"), text(answer))
    pen.end(text=answer, format="markdown")
    return Run.objects.get(id=run.id).session


def found(page: Client, words: str) -> dict[str, str]:
    """Return the titles that a search finds, each with its excerpt."""
    rows = page.get("/chat/sessions", {"q": words}).json()["sessions"]
    return {row["title"]: row["excerpt"] for row in rows}


def test_a_chat_is_found_by_questions_and_answers(page: Client, ada: User) -> None:
    chat(ada, "Plan the garden", "First the **tomatoes**,\nthen the beans.")
    chat(ada, "Tomatoes, how deep?", "A hand deep.")
    chat(ada, "Something else", "Nothing.")
    assert found(page, "TOMATOES") == {
        "Tomatoes, how deep?": "Tomatoes, how deep?",
        "Plan the garden": "…the **tomatoes**, then the beans.",
    }
    assert found(page, "hand deep").keys() == {"Tomatoes, how deep?"}
    assert found(page, "potatoes") == {}
    assert len(page.get("/chat/sessions", {"q": "  "}).json()["sessions"]) == 3


def test_an_excerpt_begins_with_a_whole_word_where_a_script_parts_words(
    page: Client, ada: User
) -> None:
    chat(ada, "A", "All the sea is salty")
    chat(ada, "B", "海の水はとても塩辛いものですsalty")
    assert found(page, "salty") == {"A": "…sea is salty", "B": "…とても塩辛いものですsalty"}


def test_a_renamed_chat_is_found_by_its_title_too(page: Client, ada: User) -> None:
    session = chat(ada, "What about this", "Well.")
    ChatSession.objects.filter(id=session.id).update(title="Zebras")
    assert found(page, "zebra") == {"Zebras": ""}


def test_other_scripts_are_found_in_either_case(page: Client, ada: User) -> None:
    chat(ada, "Скажи мне", "Москва — столица.")
    assert found(page, "москва").keys() == {"Скажи мне"}
    assert found(page, "СТОЛИЦА").keys() == {"Скажи мне"}


@pytest.mark.parametrize("words", ["%", "_", "\\", "'", "\x00", "\ud83d", "x" * 5000])
def test_search_text_is_literal_and_never_a_pattern(page: Client, ada: User, words: str) -> None:
    chat(ada, "Plain", "Words.")
    given = words.encode("utf-8", "surrogatepass")
    answer = page.get("/chat/sessions", {"q": given})
    assert answer.status_code == 200
    assert answer.json()["sessions"] == [] or not words.strip("\x00")


def test_only_the_users_own_web_chats_are_searched(page: Client, ada: User, bob: User) -> None:
    chat(bob, "Private tomatoes", "Yes.")
    chat(ada, "Tomatoes by key", "Yes.", channel="inbound")
    assert found(page, "tomatoes") == {}


def test_a_chat_is_kept_as_a_markdown_file(page: Client, ada: User, settings: Any) -> None:
    session = chat(ada, "Plan: the/garden", "## Beds\n\n- one")
    Message.objects.filter(session=session, role="user").update(
        text="[file message received] long words for the model",
        data={
            "said": "Plan: the/garden",
            "media": [{"kind": "file", "name": "a[1].md", "file": "f1"}],
        },
    )
    Message.objects.filter(session=session, role="assistant").update(
        data={"interrupted": True, "error": "Cancelled", "images": ["data:image/png;base64,AA=="]}
    )
    answer = page.get(f"/chat/sessions/{session.public_id}/export")
    assert answer["Content-Type"] == "text/markdown; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="Plan the garden.md"'
    lines = [line for line in answer.content.decode().splitlines() if line]
    times = [f"{row.created_at:%Y-%m-%d %H:%M} UTC" for row in session.messages.order_by("id")]
    assert lines == [
        "# Plan: the/garden",
        f"## You · {times[0]}",
        "Plan: the/garden",
        f"[a 1 .md]({settings.GATEWAY_URL}/files/f1)",
        f"## Assistant · {times[1]}",
        "## Beds",
        "- one",
        "*(1 picture)*",
        "*This answer was stopped.*",
    ]


def test_in_the_file_an_answer_follows_its_question(page: Client, ada: User) -> None:
    """Not what was asked before it came."""
    session = chat(ada, "one", "answer one")
    run = said(ada, "two", session_id=session.public_id)
    said(ada, "three", session_id=session.public_id)
    take(run.public_id).end(text="answer two")
    lines = page.get(f"/chat/sessions/{session.public_id}/export").content.decode().splitlines()
    words = [line for line in lines if line and not line.startswith("#")]
    assert words == ["one", "answer one", "two", "answer two", "three"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("", "chat.md"),
        ("../../etc/passwd", "etc passwd.md"),
        ('a"b\r\nSet-Cookie: x', "a b Set-Cookie x.md"),
        ("Сад", "Сад.md"),
        ("हिन्दी में: น้ำ ❤️ 1️⃣", "हिन्दी में น้ำ 1.md"),
        ("...", "chat.md"),
    ],
)
def test_rf5_the_files_name_is_safe_whatever_the_title(
    page: Client, ada: User, title: str, name: str
) -> None:
    session = chat(ada, "x", "y")
    ChatSession.objects.filter(id=session.id).update(title=title)
    answer = page.get(f"/chat/sessions/{session.public_id}/export")
    shown: Any = answer["Content-Disposition"]
    assert "\n" not in shown
    if name.isascii():
        assert shown == f'attachment; filename="{name}"'
        assert PurePath(name).name == name
    else:
        assert shown == f"attachment; filename*=utf-8''{quote(name)}"


def test_another_persons_chat_cannot_be_kept(page: Client, bob: User) -> None:
    session = chat(bob, "Private", "Yes.")
    for name in (session.public_id, "x" * 22, "%00"):
        assert page.get(f"/chat/sessions/{name}/export").status_code == 404
    assert (
        Client(HTTP_HOST=HOST).get(f"/chat/sessions/{session.public_id}/export").status_code == 401
    )


def test_an_address_that_leads_nowhere_leads_back_to_the_chat(page: Client) -> None:
    answer = page.get("/nothing-here", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    shown = answer.content.decode()
    assert "Page not found" in shown
    assert '<a class="button button-primary" href="/">' in shown
    assert "nothing-here" not in shown


def test_nothing_here_is_a_404_also_where_no_static_files_were_collected(
    page: Client, settings: Any, tmp_path: Path
) -> None:
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "gateway_project.static_files.StaticFiles"},
    }
    settings.STATIC_ROOT = tmp_path
    assert page.get("/nothing-here", headers={"Accept": "text/html"}).status_code == 404


def test_rq17_an_expired_form_explains_the_next_step(ada: User) -> None:
    client = Client(HTTP_HOST=HOST, enforce_csrf_checks=True)
    answer = client.post("/sign-in", {"username": "ada", "password": "correct horse"})
    assert answer.status_code == 403
    assert "This page has expired" in answer.content.decode()
