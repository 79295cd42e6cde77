"""Keys in texts of servers are hidden, whatever a server makes of them."""

import pytest

from core.providers.failures import classify
from core.providers.redaction import hide

KEY = "planted-Key/0123456789+abcdef"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"bad {KEY}!", "bad [key]!"),
        (f"{KEY}{KEY}", "[key]"),
        ("at ?key=planted-Key%2F0123456789%2Babcdef", "at ?key=[key]"),
        (f"only {KEY[:12]}*** is shown", "only [key]*** is shown"),
        (f"only ***{KEY[-9:]}", "only ***[key]"),
        (f"x {KEY[:5]}…", "x [key]…"),
        (f"x {KEY[:3]}…", f"x {KEY[:3]}…"),
        ("nothing of it", "nothing of it"),
        ("", ""),
    ],
)
def test_a_key_is_hidden(text: str, expected: str) -> None:
    assert hide(text, KEY) == expected


def test_a_key_that_is_also_html_is_hidden() -> None:
    assert hide("a &lt;secret&gt;&amp;more b", "<secret>&more") == "a [key] b"


@pytest.mark.parametrize("key", ["", "x", "abc"])
def test_a_word_that_is_no_secret_stays(key: str) -> None:
    assert hide("abc xyz", key) == "abc xyz"


@pytest.mark.parametrize("key", ["sk-abcd+efgh/ijkl=mnop0123", "sk-ABCD1234/efghijklmnop", KEY])
@pytest.mark.parametrize("before", range(430, 510))
def test_nothing_of_a_key_is_left_by_other_rules_that_hid_a_part(key: str, before: int) -> None:
    """Texts are cut at 500 characters, and known forms of keys are hidden before."""
    body = b'{"error": {"message": "' + b"x" * before + b" " + key.encode() + b' wrong"}}'
    found = hide(classify(status=400, body=body).reason, key)
    pieces = {key[at : at + 8] for at in range(len(key) - 7)}
    assert not [piece for piece in pieces if piece in found]
