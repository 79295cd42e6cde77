"""Arguments of calls as people read and edit them (V64)."""

import json

import pytest

from channels_app.admin.call_arguments import edited, readable


@pytest.mark.parametrize(
    "value", [{}, {"a": [1, 2.5, None, True]}, {"é\u202e": "\u200b\ufeff\U000e0041\ud83d\u3164"}]
)
def test_v64_readable_arguments_are_the_same_json(value: object) -> None:
    """Hidden characters are escapes; nothing else is."""
    text, is_whole = readable(json.dumps(value), 1000)
    assert is_whole
    assert json.loads(text) == value
    assert not set(text) & set("\u202e\u200b\ufeff\U000e0041\ud83d\u3164")


def test_v64_a_text_that_is_no_json_is_shown_as_it_is_with_codes() -> None:
    assert readable("{\u202e", 10) == ("{⟨U+202E⟩", True)
    assert readable("", 10) == ("{}", True)
    assert readable("[" * 100_000, 50) == ("[" * 50, False)
    assert readable('{"a": 1}', 5) == ('{\n  "', False)


def test_edited_arguments_are_compact_and_equal() -> None:
    assert json.loads(edited('{\r\n "a": "ü"\r\n}')) == {"a": "ü"}
