"""JSON from outside is read strictly: parts that parsers read differently, that a database cannot
store or that are nested too deeply are refused, with their place.
"""

import json
import tracemalloc
from typing import Any

import pytest

from channels_app.asgi.strict_json import BadJSONError, check_storable, depth_over, parse

DEPTH = 4


def read(text: str | bytes, **named: Any) -> Any:
    """Return the value, or the reason for its refusal as a sentence."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        return parse(data, max_depth=DEPTH, **named)
    except BadJSONError as error:
        return f"{error.field}|{error.sentence}"


def fault(value: Any) -> str:
    """Return the path of the part that cannot be stored; empty when each can."""
    try:
        check_storable(value)
    except BadJSONError as error:
        return error.field
    return ""


# Other than JSON --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("\ufeff[]", []),
        (' {"a": [1, -2.5, true, "é😀", {}]} ', {"a": [1, -2.5, True, "é😀", {}]}),
        ('{"a": 1, "b": {"a": 1}}', {"a": 1, "b": {"a": 1}}),
        ('"\\ud83d\\ude00"', "😀"),
        ("1e308", 1e308),
        ("1e-999", 0.0),
    ],
)
def test_json_is_read(text: str, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the body is not valid JSON"),
        (b"{", "the body is not valid JSON"),
        (b'{"a": 1} x', "the body is not valid JSON"),
        (b"{'a': 1}", "the body is not valid JSON"),
        (b'"\x00"', "the body is not valid JSON"),
        (b"\xef\xbb\xbf" * 2 + b"{}", "the body is not valid JSON"),
        (b"{\xef\xbb\xbf}", "the body is not valid JSON"),
        (b"9" * 5000, "the body is not valid JSON"),
        (b'"\xff"', "the body is not valid UTF-8"),
        ('"a"'.encode("utf-16"), "the body is not valid UTF-8"),
        (b'"\xed\xa0\x80"', "the body is not valid UTF-8"),
        (b'{"a": 1, "a": 1}', "an object has the same key twice"),
        (b'[{"b": 1, "a": 1, "\\u0061": 2}]', "an object has the same key twice"),
        (b"1e999", "a number is too large"),
        (b"[-1e999]", "a number is too large"),
        (b"NaN", "NaN is not JSON"),
        (b"[Infinity]", "Infinity is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b"[" * 100_000, "the JSON is nested too deeply"),
        (b'{"a":' * 100_000, "the JSON is nested too deeply"),
    ],
)
@pytest.mark.parametrize("storable", [True, False])
def test_other_text_than_json_is_refused_with_a_reason(
    data: bytes, reason: str, storable: bool
) -> None:
    """The reason holds nothing of the body."""
    assert read(data, storable=storable) == f"|Bad JSON: {reason}."


@pytest.mark.parametrize("storable", [True, False])
def test_json_is_as_deep_as_the_limit(storable: bool) -> None:
    too_deep = "|Bad JSON: the JSON is nested too deeply."
    assert read('[{"a": [{"b": 1}]}]', storable=storable) == [{"a": [{"b": 1}]}]
    assert read("[[[[]]]]", storable=storable) == [[[[]]]]
    for text in ("[[[[[]]]]]", '[{"a": [{"b": {}}]}]', '[1, [], [[[{"a": []}]]]]'):
        assert read(text, storable=storable) == too_deep


@pytest.mark.parametrize(
    ("value", "depth"),
    [
        (1, 0),
        ("[[", 0),
        ([], 1),
        ({}, 1),
        ([1, "a", None], 1),
        ({"a": {}}, 2),
        ([[], {"a": [1]}, 2], 3),
        ({"a": 1, "b": [{}]}, 3),
    ],
)
def test_the_depth_is_that_of_the_deepest_part(value: Any, depth: int) -> None:
    assert [depth_over(value, limit) for limit in range(5)] == [each < depth for each in range(5)]


# Parts that no database stores -------------------------------------------------------------------

NO_TEXT = "holds characters that are not text"
NO_KEY = "holds a key that is not text"
TOO_LARGE = "is a number beyond 64 bits"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('"a\\u0000"', f"body|body {NO_TEXT}."),
        ('{"a": ["b", {"c": "\\ud800"}]}', f"a[1].c|a[1].c {NO_TEXT}."),
        ('{"a": {"\\u0000": 1}}', f"a|a {NO_KEY}."),
        ('{"\\udfff": 1}', f"body|body {NO_KEY}."),
        ("[18446744073709551616]", f"[0]|[0] {TOO_LARGE}."),
        ('{"a": [[-9223372036854775809]]}', f"a[0][0]|a[0][0] {TOO_LARGE}."),
        ('{"a": [{}, [], 0], "b": [{"c": "\\u0000"}]}', f"b[0].c|b[0].c {NO_TEXT}."),
    ],
)
def test_a_part_that_some_database_cannot_store_is_refused_by_its_place(
    text: str, refused: str
) -> None:
    assert read(text) == refused
    assert read(text, storable=False) == json.loads(text)


@pytest.mark.parametrize(
    "value",
    [2**64 - 1, -(2**63), 10.0**300, True, None, "\x01\x7f\ufffd", {"": [{"é": []}]}, {}, []],
)
def test_parts_that_every_database_stores_are_taken(value: Any) -> None:
    assert fault(value) == ""


def test_the_first_of_several_parts_is_named() -> None:
    """In the order in which the client wrote them."""
    assert fault({"a": 1, "b": "\x00", "c": "\x00"}) == "b"
    assert fault([1, ["x", "\x00"], "\x00"]) == "[1][1]"
    assert fault({"a": {"b": [{"c": 1}], "d": "\x00"}, "e": 2**64}) == "a.d"
    assert fault([[[]], [[1]], [[], ["\x00"]]]) == "[2][1][0]"


def test_a_place_is_shown_in_part_and_without_hidden_characters() -> None:
    assert fault({"k" * 50: ["\x00"]}) == f"{'k' * 39}[0]"
    assert fault({"a": {"k" * 50: "\x00"}}) == f"a.{'k' * 39}"
    assert fault({"\u202ea": "\x00"}) == "⟨U+202E⟩a"
    assert fault({"": {"a": "\x00"}}) == ".a"
    assert fault({"": "\x00"}) == "body"


def test_a_list_of_any_length_is_checked_without_a_copy() -> None:
    """Ten million bytes of small numbers took four seconds of the process, and 650 MB."""
    value = [0] * 100_000
    tracemalloc.start()
    try:
        check_storable(value)
        depth_over(value, DEPTH)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000
