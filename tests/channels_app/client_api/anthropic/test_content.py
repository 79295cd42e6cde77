"""The blocks of ``POST /v1/messages``: each as the model gets it, and each refusal."""

from typing import Any

import pytest
from pytest_django import Settings

from channels_app.asgi.http import RefusedError
from channels_app.client_api.anthropic import content
from tests.people import PIXEL

Json = dict[str, Any]
PNG = PIXEL.partition(",")[2]
UPLOAD = "a" * 22
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {"city": "Köln"}}
BASE64 = {"type": "base64", "media_type": "image/png", "data": PNG}
PICTURE = {"type": "image_url", "image_url": {"url": PIXEL}}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def image(source: Any = BASE64) -> Json:
    return {"type": "image", "source": source}


def document(source: Any, **more: Any) -> Json:
    return {"type": "document", "source": source, **more}


def said(*blocks: Any, role: str = "user") -> Json:
    return {"role": role, "content": list(blocks)}


def result(given: Any, **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": "t1", "content": given, **more}


def read(*messages: Any, system: Any = None) -> list[Json]:
    return content.conversation(system, list(messages))


def of_user(*blocks: Any) -> Any:
    """Return what blocks of the person become."""
    [found] = read(said(*blocks))
    assert found["role"] == "user"
    return found["content"]


def test_w28_a_call_and_its_result_keep_their_letters() -> None:
    """[W28] Their order, and what the assistant said before."""
    picture = "![a](data:image/png;base64,AAAA)"
    found = read(
        said(text("Look"), text("there")),
        said(text(f"I look. {picture}"), text("Wait."), USE, role="assistant"),
        said(result([text("rain"), image()]), text("Well?")),
    )
    arguments = '{"city": "Köln"}'
    call = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    assert found == [
        {"role": "user", "content": "Look\nthere"},
        {"role": "assistant", "content": "I look. ![a]()\n\nWait.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": "rain\n[Its pictures follow.]"},
        {"role": "user", "content": [PICTURE, text("Well?")]},
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (result("rain"), "rain"),
        (result(None), ""),
        ({"type": "tool_result", "tool_use_id": "t1"}, ""),
        (result("no", is_error=True), "[The tool failed.]\nno"),
        (result("yes", is_error=1), "yes"),
        (
            result([{"type": "tool_reference", "tool_name": "look"}]),
            "[The tool look can be called.]",
        ),
        (
            result(
                [{"type": "search_result", "title": "A", "source": "s", "content": [text("x")]}]
            ),
            "A (s)\nx",
        ),
    ],
)
def test_w28_a_result_is_text_for_the_model(given: Json, told: str) -> None:
    """[W28] Alone, nothing of the person follows it."""
    found = read(said(text("Look")), said(USE, role="assistant"), said(given))
    assert found[2:] == [{"role": "tool", "tool_call_id": "t1", "content": told}]


def test_w25_empty_messages_are_left_out() -> None:
    """[W25] Of the system and of the assistant, whose thinking is not sent to models again."""
    thinking = [{"type": "thinking", "thinking": "Hm"}, {"type": "redacted_thinking", "data": "x"}]
    found = read(
        said(text("Hi")),
        said(*thinking, role="assistant"),
        said(*thinking, text("Hello"), role="assistant"),
        said(text(""), role="system"),
        said(),
        system=[text(""), text("Be brief."), text("")],
    )
    assert found == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
    ]


def test_w28_documents_become_files_or_their_text() -> None:
    """[W28] With their title and context before them."""
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    plain = {"type": "base64", "media_type": "text/plain", "data": "SGk="}
    upload = {"type": "file", "file_id": UPLOAD}
    inside = {"type": "content", "content": [text("In it"), image(), text("end")]}
    words = {"type": "text", "data": "Salt."}
    file: Json = {"kind": "file", "url": "data:application/pdf;base64,JVBERg==", "name": "a.pdf"}
    assert of_user(document(pdf, title="a.pdf", context="Mine.")) == [
        text("Mine."),
        {"type": "file", "file": file},
    ]
    url = "data:text/plain;base64,SGk="
    assert of_user(document(plain))[0]["file"] == {"kind": "file", "url": url, "name": ""}
    assert of_user(document(upload, title="b"))[0]["file"] == {
        "kind": "file",
        "upload": UPLOAD,
        "name": "b",
    }
    assert of_user(document(words)) == "[Document]\nSalt."
    assert of_user(document(words, title="c", context="Mine.")) == "Mine.\n[Document: c]\nSalt."
    assert of_user(document(inside)) == [text("[Document]"), text("In it"), PICTURE, text("end")]
    assert of_user(document({"type": "content", "content": "In it"})) == "[Document]\nIn it"


def test_w28_pictures_are_data_or_an_address() -> None:
    """[W28]"""
    assert of_user(image()) == [PICTURE]
    url = "https://pictures.example/a.png"
    [found] = of_user(image({"type": "url", "url": url}))
    assert found == {"type": "image_url", "image_url": {"url": url}}


USER = "text, image, document, search_result or tool_result"
RESULT = "text, image, document, search_result or tool_reference"
ASSISTANT = "text, tool_use, thinking or redacted_thinking"
AT = "messages[0].content"
IN = "messages[1].content[0]"


@pytest.mark.parametrize(
    ("message", "field", "words"),
    [
        (5, "messages[0]", "an object"),
        ({"role": "robot", "content": "x"}, "messages[0].role", "user, assistant or system"),
        ({"role": "user", "content": 5}, AT, "a string or a list of blocks"),
        ({"role": "assistant", "content": 5}, AT, "a string or a list of blocks"),
        ({"role": "system", "content": 5}, AT, "a string or a list of blocks"),
        ({"role": "user", "content": "\x00"}, AT, "not text"),
        (said(5), f"{AT}[0]", "an object"),
        (said(text("\x00")), f"{AT}[0].text", "not text"),
        (said({"type": "x"}), f"{AT}[0].type", f"must be {USER}"),
        (said({"type": "x"}, role="assistant"), f"{AT}[0].type", f"must be {ASSISTANT}"),
        (said(image(), role="system"), f"{AT}[0].type", "must be text"),
        (said({**USE, "input": 5}, role="assistant"), f"{AT}[0].input", "an object"),
        (said({**USE, "input": {"a": "\x00"}}, role="assistant"), None, ""),
        (said({**USE, "id": 5}, role="assistant"), f"{AT}[0].id", "a string"),
        (said({**USE, "name": "a b"}, role="assistant"), f"{AT}[0].name", "a name"),
        (said(result("x")), f"{AT}[0].tool_use_id", "answers no tool_use before it"),
        (said(result("x", tool_use_id=5)), f"{AT}[0].tool_use_id", "a string"),
        (said(image("x")), f"{AT}[0].source.type", "base64 or url"),
        (said(image({"type": "file", "url": "x"})), f"{AT}[0].source.type", "base64 or url"),
        (said(image({"type": "url", "url": 5})), f"{AT}[0].source.type", "base64 or url"),
        (said(image({**BASE64, "data": 5})), f"{AT}[0].source", "a media_type and data"),
        (said(image({**BASE64, "media_type": 5})), f"{AT}[0].source", "a media_type and data"),
        (said(image({**BASE64, "data": "!"})), f"{AT}[0].source.data", ""),
        (said(image({"type": "url", "url": PIXEL})), f"{AT}[0].source.url", "http(s) address"),
        (said(image({"type": "url", "url": "ftp://a"})), f"{AT}[0].source.url", ""),
        (said(document(5)), f"{AT}[0].source", "an object"),
        (said(document({}, title=5)), f"{AT}[0].title", "a name"),
        (said(document({}, context=5)), f"{AT}[0].context", "a string"),
        (said(document({"type": "url"})), f"{AT}[0].source.type", "url is not supported"),
        (said(document({"type": "file"})), f"{AT}[0].source.type", "must be base64, text"),
        (said(document({"file_id": UPLOAD})), f"{AT}[0].source.type", "must be base64, text"),
        (said(document({"type": "text"})), f"{AT}[0].source", "a string"),
        (
            said(document({"type": "base64", "media_type": "image/png"})),
            f"{AT}[0].source.media_type",
            "application/pdf or text/plain",
        ),
        (
            said(document({"type": "base64", "media_type": "text/plain", "data": ""})),
            f"{AT}[0].source.data",
            "base64",
        ),
        (
            said(document({"type": "content", "content": [document({})]})),
            f"{AT}[0].source.content[0].type",
            "must be text or image",
        ),
        (said({"type": "search_result"}), f"{AT}[0].title", "a string"),
        (said({"type": "search_result", "title": "a"}), f"{AT}[0].source", "a string"),
        (
            said({"type": "search_result", "title": "a", "source": "b", "content": [{}]}),
            f"{AT}[0].content[0].text",
            "a string",
        ),
    ],
)
def test_w32_a_wrong_block_is_named(message: Any, field: str | None, words: str) -> None:
    """[W32] By its path."""
    if field is None:
        assert read(said(text("x")), message)[1]["tool_calls"]
        return
    with pytest.raises(RefusedError) as caught:
        read(message)
    assert (caught.value.status, caught.value.field) == (400, field)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ([{"type": "x"}], f"{IN}.content[0].type", f"must be {RESULT}"),
        (5, f"{IN}.content", "a string or a list of blocks"),
        ([{"type": "tool_reference", "tool_name": 5}], f"{IN}.content[0].tool_name", "a name"),
        ("\x00", f"{IN}.content", "not text"),
    ],
)
def test_w32_a_wrong_result_is_named(given: Any, field: str, words: str) -> None:
    """[W32] By its path."""
    with pytest.raises(RefusedError) as caught:
        read(said(USE, role="assistant"), said(result(given)))
    assert caught.value.field == field
    assert words in str(caught.value)


def test_w32_a_call_that_is_too_long_is_named(settings: Settings) -> None:
    """[W32] As any text of a message."""
    settings.MAX_TEXT_CHARACTERS = 15
    with pytest.raises(RefusedError) as caught:
        read(said(USE, role="assistant"))
    assert (caught.value.status, caught.value.field) == (413, f"{AT}[0].input")


def test_w32_a_conversation_is_bounded(settings: Settings) -> None:
    """[W32] Messages, calls of an answer, and pictures; and it says something."""
    settings.MAX_ATTACHMENTS = 1
    hi = said(text("Hi"))
    assert len(read(*[hi] * 2000)) == 2000
    assert read(said(text("Hi")), said(*[USE] * 128, role="assistant"))
    for messages, status, field in (
        ([hi] * 2001, 413, "messages"),
        ([said(*[USE] * 129, role="assistant")], 400, AT),
        ([said(image(), image())], 413, "messages"),
        ([], 400, "messages"),
        ([said(text(""))], 400, "messages"),
        ([said(text("Be brief."), role="system")], 400, "messages"),
    ):
        with pytest.raises(RefusedError) as caught:
            read(*messages)
        assert (caught.value.status, caught.value.field) == (status, field)
    for wrong in (None, "x", {"a": 1}):
        with pytest.raises(RefusedError) as caught:
            content.conversation(None, wrong)
        assert str(caught.value) == "messages must be a list with at least one message."
