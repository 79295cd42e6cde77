"""Thoughts that a model's server leaves in the content of its answers, between tags. Pure.

Servers without a reasoning parser do: llama.cpp (``--reasoning-format none``), older Ollama, vLLM
without ``--reasoning-parser``, LM Studio. Where the chat template has opened the tag in the prompt,
as those of DeepSeek, Qwen and GLM do, only the closing one comes. It is known only then that the
text before it was no answer: that is taken back, and the next answers of this model are read as
thoughts from their beginning.
"""

import re
from collections.abc import Iterator

from core.providers.base import Delta, Restart, TextDelta, ThinkingDelta, ToolCallDelta

NAMES = "think|thinking|thought"
TAGS = [f"<{slash}{name}>" for name in NAMES.split("|") for slash in ("", "/")]
BEGINNING = re.compile(rf"\s*<(/?)({NAMES})>")
OPENING = re.compile(rf"<(?:{NAMES})>")
# The end of a thought. An answer that speaks of the tag has a space or a quotation mark before it,
# or a letter of a script without spaces.
CLOSING = re.compile(
    rf"(?:\n|[\da-zA-Z.!?…。\uff01\uff1f)}}][\"'”’»*)]{{0,4}})(?P<tag></(?:{NAMES})>)"
)
SEEN = 32  # characters before a piece, for the beginning of a match
MOST_BLANKS = 32  # a model may send white space without end: it counts as its answer


class Thoughts:
    """Tells the thoughts in the content of one answer apart.

    ``begins_open``: the answers of this model begin within the tag; at the end, what is known then.
    """

    def __init__(self, *, begins_open: bool) -> None:
        self.begins_open = begins_open
        self._is_thinking = begins_open
        self._has_tag = self._is_begun = self._is_over = self._has_calls = False
        self._closing = CLOSING
        self._blanks = MOST_BLANKS  # of the white space beside a tag, which is left out
        self._pieces: list[str] = []
        self._seen = self._held = ""
        self._ticks = 0  # of Markdown's code, which are even outside of it

    def of(self, delta: Delta) -> Iterator[Delta]:
        """Return the deltas that take the place of one. A part of a tag is held until the next."""
        if self._is_over and not self._is_thinking:
            self._pieces.clear()  # nothing is taken back any more
        elif isinstance(delta, TextDelta):
            self._pieces.append(delta.text)
        if isinstance(delta, TextDelta):
            text, self._held = self._held + delta.text, ""
            yield from self._read(text)
            return
        yield from self._rest()
        if isinstance(delta, ThinkingDelta):  # the server has a parser
            self._is_begun = self._is_over = True
            self._is_thinking = self.begins_open = False
        if isinstance(delta, ToolCallDelta):  # nothing before it is taken back: it would be void
            self._has_calls = True
            self._is_over = self._is_over or not self._is_thinking
        yield delta

    def end(self, reason: str) -> Iterator[Delta]:
        """Return what is left of an answer that ended for ``reason``. A thought that the model did
        not end is the answer.
        """
        yield from self._rest()
        if self._is_thinking and self._pieces and reason == "stop" and not self._has_calls:
            self.begins_open = False
            yield Restart()
            yield TextDelta("".join(self._pieces))

    def _rest(self) -> Iterator[Delta]:
        text, self._held = self._held, ""
        yield from self._made(text)

    def _read(self, text: str) -> Iterator[Delta]:
        if not self._is_begun:
            text = self._begin(text)
        if self._is_begun and not self._is_over:
            yield from self._until_closed(text)
        else:
            yield from self._made(text)

    def _begin(self, text: str) -> str:
        """Return the text after the opening tag; hold a text that may become one."""
        if len(text) < MOST_BLANKS and is_cut(text.lstrip()):
            self._held = text
            return ""
        self._is_begun = True
        found = BEGINNING.match(text)
        if found is None:
            self._blanks = MOST_BLANKS if self._is_thinking else 0
            return text
        self._is_over = bool(found[1])
        self._is_thinking = not self._is_over
        if self._is_thinking:
            self.begins_open = False
            self._has_tag = True
            self._closing = re.compile(rf"(?P<tag></{found[2]}>)")
        return text[found.end() :]

    def _until_closed(self, text: str) -> Iterator[Delta]:
        """Return the deltas of a text in which the thoughts may end: outside of code, and before
        the answer speaks of a tag that opens them.
        """
        window, seen = self._seen + text, len(self._seen)
        spoken_of = None if self._has_tag else OPENING.search(window)
        before = spoken_of.start() if spoken_of else len(window)
        for found in self._closing.finditer(window, 0, before):
            start, end = found.span("tag")
            is_code = (self._ticks + window.count("`", seen, start)) % 2 == 1
            if end > seen and (self._has_tag or not is_code):
                yield from self._close(window[seen:start], behind=len(window) - start)
                yield from self._made(window[end:])
                return
        self._is_over = spoken_of is not None
        self._ticks += text.count("`")
        self._held = cut_tag(text)
        told = text[: len(text) - len(self._held)]
        self._seen = (self._seen + told)[-SEEN:]
        yield from self._made(told)

    def _close(self, last: str, *, behind: int) -> Iterator[Delta]:
        """End the thoughts with their ``last`` piece. ``behind``: how many characters follow."""
        self.begins_open = not self._has_tag
        if self._is_thinking:
            yield from self._made(last)
        else:
            yield Restart()
            yield ThinkingDelta("".join(self._pieces)[:-behind].lstrip())
        self._is_thinking, self._is_over, self._blanks = False, True, MOST_BLANKS

    def _made(self, text: str) -> Iterator[Delta]:
        told = text.lstrip() if self._blanks else text
        self._blanks = 0 if told else max(0, self._blanks - len(text))
        if told:
            yield ThinkingDelta(told) if self._is_thinking else TextDelta(told)


def cut_tag(text: str) -> str:
    """Return the part of a tag that a text ends with; empty for none."""
    tail = text[text.rfind("<") :]  # without one the last character, with which no tag begins
    return tail if is_cut(tail) else ""


def is_cut(text: str) -> bool:
    """Return whether a text may become a tag."""
    return any(tag.startswith(text) and tag != text for tag in TAGS)
