"""Texts of a template that are outside of the catalogue: in text, in attributes, in filters."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

# Blocks of which nothing is a text of ours, or all is in the catalogue.
LEFT_OUT = re.compile(
    r"{#.*?#}"
    r"|{%\s*comment.*?endcomment\s*%}"
    r"|{%\s*blocktrans(?:late)?\b.*?endblocktrans(?:late)?\s*%}",
    re.DOTALL,
)
TAG = re.compile(r"{%.*?%}|{{.*?}}", re.DOTALL)
# A literal that a filter shows: `{{ name|default:"(none)" }}`, unless it is marked with _().
SHOWN_LITERAL = re.compile(
    r"""\|(?:default|default_if_none|yesno|pluralize):(?P<quote>["'])(?P<text>[^"']*[^\W\d_][^"']*)(?P=quote)"""
)
LETTER = re.compile(r"[^\W\d_]")
SHOWN = {"title", "alt", "placeholder", "aria-label", "aria-description", "data-working"}
SHOWN |= {"data-suggest", "label", "content"}
NOT_TEXT = {"script", "style", "code", "kbd", "pre"}
# Names, and examples of what is typed: the same in every language.
NAMES = {
    "Latchkey",
    "CSV",
    "Europe/Berlin",
    "123456:ABC…",
    "https://api.telegram.org",
    "http://192.168.1.20:8080/v1",
}


def outside(template: str) -> Iterator[str]:
    """Yield each text of a template that is not in the catalogue."""
    rest = LEFT_OUT.sub("", template)
    for tag in TAG.findall(rest):
        for found in SHOWN_LITERAL.finditer(tag):
            if found["text"] not in NAMES:
                yield found["text"]
    reader = Reader()
    reader.feed(TAG.sub("", rest))
    reader.close()
    for text in reader.found:
        if LETTER.search(text) and text.strip(" ·@#–:()“”\n") not in NAMES:
            yield text


class Reader(HTMLParser):
    """Collects what a person reads."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in NOT_TEXT:
            self.within.append(tag)
        if tag != "meta":
            self.found += [value for name, value in attrs if name in SHOWN and value]

    def handle_endtag(self, tag: str) -> None:
        if self.within and self.within[-1] == tag:
            self.within.pop()

    def handle_data(self, data: str) -> None:
        if not self.within:
            self.found.append(data.strip())
