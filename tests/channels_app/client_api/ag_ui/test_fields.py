"""The checks of a ``RunAgentInput``, without a gateway."""

from typing import Any

import pytest

from channels_app.asgi.chat_messages import MAX_MESSAGES
from channels_app.asgi.http import RefusedError
from channels_app.client_api.ag_ui import fields

Json = dict[str, Any]
ASKED = {"id": "1", "role": "user", "content": "x"}


def refusal(messages: Any, **more: Any) -> tuple[int, str]:
    """Return the status and the field with which a request is refused."""
    with pytest.raises(RefusedError) as caught:
        fields.read({"threadId": "t", "runId": "r", "messages": messages, **more})
    return caught.value.status, caught.value.field


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"id": "0", "role": "tool", "toolCallId": [], "content": "x"}, "messages[0].toolCallId"),
        ({"id": "0", "role": "tool", "content": "x"}, "messages[0].toolCallId"),
        (
            {"id": "0", "role": "assistant", "toolCalls": [{"id": {}}]},
            "messages[0].toolCalls[0].id",
        ),
        (
            {"id": "0", "role": "user", "content": [{"type": [], "source": {}}]},
            "messages[0].content[0].type",
        ),
        ({"id": "0", "role": [], "content": "x"}, "messages[0].role"),
    ],
)
def test_w45_a_value_of_the_wrong_type_is_named(message: Json, field: str) -> None:
    """[W45] Also where it is a list or an object."""
    assert refusal([message, ASKED]) == (400, field)


@pytest.mark.parametrize("name", ["\0", "", "\u00e9", 5])
def test_w45_the_id_of_a_run_is_printable(name: Any) -> None:
    """[W45] In a request as in an address."""
    assert refusal([ASKED], runId=name) == (400, "runId")


def test_w45_too_many_messages_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[W45] Also those that become one."""
    monkeypatch.setattr(fields, "converted", lambda _: pytest.fail("they were read"))
    said = {"id": "0", "role": "assistant", "content": "x"}
    assert refusal([said] * MAX_MESSAGES + [ASKED]) == (413, "messages")


def test_w41_messages_of_the_assistant_in_a_row_are_one() -> None:
    """[W41] Their texts and calls are joined; empty ones are left out."""
    calls = [
        {"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for each in ("a", "b", "open")
    ]
    found = fields.converted(
        [
            {"id": "1", "role": "assistant", "content": "One"},
            {"id": "2", "role": "reasoning", "content": "hm"},
            {"id": "3", "role": "assistant", "content": "", "toolCalls": calls[:1]},
            {"id": "4", "role": "assistant", "toolCalls": calls[1:]},
            {"id": "5", "role": "assistant", "content": ""},
            {"id": "6", "role": "assistant", "content": "Two"},
            {"id": "7", "role": "tool", "toolCallId": "a", "content": "1"},
            {"id": "8", "role": "tool", "toolCallId": "b", "error": "no"},
            {"id": "9", "role": "assistant", "content": "Three"},
        ]
    )
    assert found == [
        {"role": "assistant", "content": "One\n\nTwo", "tool_calls": calls[:2]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "no"},
        {"role": "assistant", "content": "Three"},
    ]
