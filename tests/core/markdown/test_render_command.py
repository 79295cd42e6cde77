"""`manage.py render`: the reader's view, at a terminal."""

import io
import sys

import pytest
from django.core.management import CommandError, call_command

SOURCE = "# Hi\n\n- **a** [b](https://e.com) `c`\n\n```py\nx\n```"


def rendered(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, source: bytes = SOURCE.encode()
) -> str:
    """Run the command on a text."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(source)))
    call_command("render", *arguments, stdout=out)
    return out.getvalue()


def test_t5_telegram_shows_text_and_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    """[T5]: the text as it is read, its length, and each style with its words."""
    assert rendered(monkeypatch).splitlines() == [
        "Hi", "• a b c", "x", "--- 12 of 4096",
        "bold          'Hi'",
        "bold          'a'",
        "text_link     'b' https://e.com",
        "code          'c'",
        "pre           'x' py",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("markdownv2", "*Hi*\n• *a* [b](https://e.com) `c`\n```py\nx```\n"),
        (
            "html",
            '<b>Hi</b>\n• <b>a</b> <a href="https://e.com">b</a> <code>c</code>\n'
            '<pre><code class="language-py">x</code></pre>\n',
        ),
        ("whatsapp", "*Hi*\n\n• *a* b (https://e.com) `c`\n\n```\nx\n```\n"),
        ("plain", "Hi\n\n- a b (https://e.com) c\n\nx\n"),
    ],
)
def test_t3_t5_the_other_channels_print_the_text_as_sent(
    monkeypatch: pytest.MonkeyPatch, shape: str, expected: str
) -> None:
    """[T3], [T5]."""
    assert rendered(monkeypatch, "--format", shape) == expected


def test_t6_long_texts_are_printed_as_their_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """[T6]; bytes that are no UTF-8 do not matter."""
    assert rendered(monkeypatch, source=b"word\xff " * 1000).count(" of 4096") == 2


def test_an_unknown_channel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command names the formats there are."""
    with pytest.raises(CommandError, match="telegram"):
        rendered(monkeypatch, "--format", "fax")
