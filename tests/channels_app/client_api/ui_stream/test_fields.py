"""The messages that ``useChat`` sends, without a gateway."""

from typing import Any

import pytest

from channels_app.asgi.http import RefusedError
from channels_app.client_api.ui_stream import fields
from tests.people import PIXEL

Json = dict[str, Any]
STEP = {"type": "step-start"}


def text(words: str) -> Json:
    """Return a part of text."""
    return {"type": "text", "text": words}


def called(number: int, **more: Any) -> Json:
    """Return a call of a tool of the page that has its result."""
    done = {"state": "output-available", "input": {"n": number}, "output": f"result {number}"}
    return {"type": "tool-look", "toolCallId": f"c{number}", **done, **more}


def read(*parts: Json) -> list[Json]:
    """Return the messages for the model of an assistant's message, before the person's next one."""
    answer = {"id": "m2", "role": "assistant", "parts": list(parts)}
    asked = {"id": "m1", "role": "user", "parts": [text("Look")]}
    return fields.read({"id": "c", "messages": [asked, answer, asked]}).messages[1:-1]


def test_steps_of_an_answer_keep_their_order() -> None:
    """[M3] A text that the model wrote after a result stands after it, as does a call."""
    found = read(STEP, text("I look."), called(1), STEP, called(2), STEP, text("It is red."))
    calls = [[call["id"] for call in each.get("tool_calls", [])] for each in found]
    assert [(each["role"], each["content"]) for each in found] == [
        ("assistant", "I look."),
        ("tool", "result 1"),
        ("assistant", ""),
        ("tool", "result 2"),
        ("assistant", "It is red."),
    ]
    assert calls == [["c1"], [], ["c2"], [], []]


def test_steps_without_a_result_are_one_message() -> None:
    """[M3] Models expect no two messages of the assistant in a row."""
    assert read(STEP, text("One."), STEP, text("Two.")) == [
        {"role": "assistant", "content": "One.\nTwo."}
    ]
    assert read(STEP) == []


@pytest.mark.parametrize(
    ("more", "arguments"),
    [
        ({"input": None, "rawInput": '{"n":'}, '{"n":'),
        ({"input": None, "rawInput": {"n": "x"}}, '{"n": "x"}'),
        ({"input": None}, "{}"),
        ({"input": {}}, "{}"),
        ({"input": {"n": 1}, "rawInput": "x"}, '{"n": 1}'),
    ],
)
def test_a_call_with_wrong_arguments_comes_back_as_the_model_wrote_it(
    more: Json, arguments: str
) -> None:
    """[M3] The page's check refused them: ``input`` is missing, ``rawInput`` has them."""
    [said, _] = read(called(1, state="output-error", errorText="wrong", output=None, **more))
    assert said["tool_calls"][0]["function"]["arguments"] == arguments


def request(*messages: Any, **more: Any) -> Json:
    """Return a request with these messages."""
    return {"id": "c", "messages": list(messages), **more}


def said(*parts: Any, role: str = "user", name: str = "m1") -> Json:
    return {"id": name, "role": role, "parts": list(parts)}


def refusal(body: Json) -> tuple[str, str]:
    """Return the field of the error with which a request is refused, and its text."""
    with pytest.raises(RefusedError) as caught:
        fields.read(body)
    assert caught.value.status == 400
    return caught.value.field, str(caught.value)


HI = said(text("Hi"))
PDF = {
    "type": "file",
    "mediaType": "application/pdf",
    "url": "data:application/pdf;base64,JVBERg==",
}
NO_LIST = "must be a list with at least one message."


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"messages": [HI]}, "id", "must be a string"),
        ({"id": "c"}, "messages", f"messages {NO_LIST}"),
        (request(), "messages", f"messages {NO_LIST}"),
        ({"id": "c", "messages": {}}, "messages", f"messages {NO_LIST}"),
        (request("x"), "messages[0]", "messages[0] must be an object."),
        (request(HI, 5), "messages[1]", "messages[1] must be an object."),
        ({"id": "c", "message": 5}, "messages[0]", "messages[0] must be an object."),
        (request({"role": "user"}), "messages[0].parts", "must be a list of parts."),
        (request({"role": "user", "parts": [5]}), "messages[0].parts", "must be a list of parts."),
        (request(said(PDF | {"url": 5})), "messages[0].parts[0]", "must have a url."),
        (request(said(text("x"), PDF | {"url": "x"})), "messages[0].parts[1].url", "data URL"),
        (request(said(PDF | {"filename": 5})), "messages[0].parts[0].filename", "must be a name"),
        (request(said(PDF, role="system")), "messages[0].content[0].type", "must be text"),
        (request(said(text("x"), role="robot")), "messages[0].role", "must be system"),
        (request(HI, tools=5), "tools", "must be a list"),
        (request(HI, tools={"look": 5}), "tools.look", "tools.look must be an object."),
        (request(HI, system=5), "system", "must be a string"),
        (request(said()), "messages", "must not be empty"),
    ],
)
def test_a_wrong_request_is_named(body: Json, field: str, words: str) -> None:
    """By its path."""
    found, told = refusal(body)
    assert found == field
    assert words in told


def test_a_request_has_the_whole_history_or_the_last_message() -> None:
    """``messages`` count where both are given; an empty ``message`` is none."""
    whole = fields.read(request(HI, said(text("Yes?"), role="assistant", name="m2"), HI))
    assert (whole.chat, whole.history, whole.message_id) == ("c", True, "")
    assert [each["role"] for each in whole.messages] == ["user", "assistant", "user"]
    assert (whole.tools, whole.answers, whole.system, whole.wanted) == ([], [], "", None)
    last = fields.read({"id": "c", "message": said(text("Last")), "system": "Be brief."})
    assert (last.history, last.system) == (False, "Be brief.")
    assert last.messages == [{"role": "user", "content": "Last"}]
    assert fields.read({**request(HI), "message": 5}).history
    named = fields.read(request(HI, model="m"))
    assert named.wanted is not None


@pytest.mark.parametrize(
    ("name", "found"),
    [("m2", "m2"), ("x" * 100, "x" * 100), ("x" * 101, ""), ("é", ""), (5, ""), (None, "")],
)
def test_an_answer_goes_on_in_the_message_of_its_calls(name: Any, found: str) -> None:
    """[M3] By the id that the page gave it."""
    answer = {**said(called(1), role="assistant"), "id": name}
    assert fields.read(request(HI, answer)).message_id == found
    assert fields.read(request(answer, HI)).message_id == ""


def test_tools_come_as_a_list_or_by_their_names() -> None:
    """As the AI SDK and assistant-ui send them."""
    about = {"description": "Looks.", "parameters": {"type": "object"}}
    tool = {"type": "function", "function": {"name": "look", **about}}
    assert fields.read(request(HI, tools=[tool])).tools == [tool]
    assert fields.read(request(HI, tools={"look": about})).tools == [tool]
    bare = {"type": "function", "function": {"name": "look"}}
    assert fields.read(request(HI, tools={"look": {}, "see": about})).tools[0] == bare
    assert fields.read(request(HI, tools=None)).tools == []


def test_parts_of_the_person_are_text_pictures_and_documents() -> None:
    """[L5] Others are for the page only."""
    picture = {"type": "file", "mediaType": "image/png", "url": PIXEL}
    upload = {"type": "file", "mediaType": "text/plain", "url": f"/files/{'a' * 22}"}
    page: Json = {"type": "data-chart", "data": {}}
    [found] = fields.read(
        request(said(text("See"), page, picture, PDF | {"filename": "a.pdf"}, upload))
    ).messages
    assert found["content"] == [
        text("See"),
        {"type": "image_url", "image_url": {"url": PIXEL}},
        {"type": "file", "file": {"kind": "file", "url": PDF["url"], "name": "a.pdf"}},
        {"type": "file", "file": {"kind": "file", "upload": "a" * 22, "name": ""}},
    ]


def test_calls_of_the_page_become_calls_and_results() -> None:
    """[M3] Static or dynamic; results that are no text are JSON in the person's letters."""
    dynamic = called(2, type="dynamic-tool", toolName="see", output={"sky": "grün"})
    failed = called(3, state="output-error", errorText="No.")
    del failed["output"]
    first, *results = read(text("I look."), called(1), dynamic, failed)
    assert first == {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": name, "arguments": f'{{"n": {number}}}'},
            }
            for number, name in ((1, "look"), (2, "see"), (3, "look"))
        ],
    }
    assert results == [
        {"role": "tool", "tool_call_id": f"c{number}", "content": content}
        for number, content in ((1, "result 1"), (2, '{"sky": "grün"}'), (3, "No."))
    ]


DENIED, APPROVED = fields.DENIED, fields.APPROVED


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (called(1, state="output-denied"), DENIED),
        (called(1, state="output-denied", approval={"approved": True}), DENIED),
        (called(1, state="approval-responded", approval={"approved": False}), DENIED),
        (
            called(1, state="approval-responded", approval={"approved": False, "reason": "Dear."}),
            f"{DENIED} Reason: Dear.",
        ),
        (
            called(1, state="approval-responded", approval={"approved": False, "reason": 5}),
            DENIED,
        ),
        (called(1, state="approval-responded", approval={"approved": False, "reason": ""}), DENIED),
        (called(1, state="approval-responded", approval={"approved": True}), APPROVED),
        (called(1, state="approval-responded", approval=5), APPROVED),
        (called(1, approval={"approved": True}), "result 1"),
    ],
)
def test_a_decided_call_is_told_to_the_model(part: Json, told: str) -> None:
    """[M3] With the person's reason."""
    [_, result] = read(part)
    assert result["content"] == told


@pytest.mark.parametrize(
    "part",
    [
        called(1, state="input-available"),
        called(1, state=None),
        called(1, providerExecuted=True),
        called(1, type=5),
        called(1, type="source-url"),
        {"type": "reasoning", "text": "Hm."},
    ],
)
def test_parts_that_are_no_finished_call_are_left_out(part: Json) -> None:
    """[M3] Of the gateway, of the page, or in progress."""
    assert read(part) == []
    assert read(text("Hm"), part) == [{"role": "assistant", "content": "Hm"}]


ID = f"{'a' * 22}.{'0' * 16}"


@pytest.mark.parametrize(
    ("more", "choice"),
    [
        ({}, "once"),
        ({"approval": {"id": ID, "approved": False}}, "deny"),
        ({"approval": {"id": ID, "approved": 1}}, "deny"),
        ({"approval": {"id": "theirs", "approved": True}}, None),
        ({"approval": 5}, None),
        ({"state": "output-available"}, None),
    ],
)
def test_answers_to_questions_of_the_gateway_are_read(more: Json, choice: str | None) -> None:
    """[M3] Those in the last message, the assistant's; the request need say nothing else then."""
    answered = {"state": "approval-responded", "approval": {"id": ID, "approved": True}}
    part = called(1, providerExecuted=True, **{**answered, **more})
    only = request(said(part, role="assistant"))
    if choice is None:
        assert refusal(only)[0] == "messages"
        return
    found = fields.read(only)
    assert [(each.id, each.choice) for each in found.answers] == [(ID, choice)]
    assert found.messages == []
    both = fields.read(request(HI, said(part, role="assistant")))
    assert [each["role"] for each in both.messages] == ["user"]
    assert fields.read(request(said(part, role="assistant"), HI)).answers == []
    assert fields.read(request(HI, said(part))).answers == []


def test_messages_of_the_system_stay_so() -> None:
    """Each follows the gateway's rules, and none is a turn of the person."""
    found = fields.read(request(said(text("Be brief."), role="system"), HI)).messages
    assert [each["role"] for each in found] == ["system", "user"]


def test_all_answers_of_a_message_are_read() -> None:
    """[M3] Beside texts and calls."""
    approval = {"id": ID, "approved": True}
    part = called(1, state="approval-responded", providerExecuted=True, approval=approval)
    again = {**part, "approval": {"id": f"b{ID[1:]}", "approved": False}}
    found = fields.read(request(said(text("Hm"), part, called(2), again, role="assistant")))
    assert [each.choice for each in found.answers] == ["once", "deny"]


def test_a_picture_may_be_an_upload() -> None:
    """As a document may: by its address at the gateway."""
    upload = {"type": "file", "mediaType": "image/png", "url": f"/files/{'a' * 22}"}
    [found] = fields.read(request(said(upload, text("What is it?")))).messages
    assert found["content"][0] == {
        "type": "file",
        "file": {"kind": "file", "upload": "a" * 22, "name": ""},
    }


def test_the_results_of_a_last_message_are_told_with_their_tools() -> None:
    """Of all calls: the gateway's history, which the model gets before them, has none of these."""
    earlier = [called(0), STEP, text("I look."), called(1), called(2, type="tool-see")]
    [found] = fields.read({"id": "c", "message": said(*earlier, role="assistant")}).messages
    assert found["role"] == "user"
    assert found["content"] == (
        "The result of the tool look: result 1\n\nThe result of the tool see: result 2"
    )
