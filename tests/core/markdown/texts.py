"""Texts to convert: generated ones whose words are known, and those of installed packages."""

import email
import random
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

WORDS = (
    "alpha",
    "beta",
    "naïve",
    "ß",
    "Σίγμα",
    "слово",
    "重要",
    "カタカナ",
    "한국어",
    "שלום",
    "مرحبا",
    "😀",
    "👨\u200d👩\u200d👧\u200d👦",
    "🇩🇪",
    "𝔊𝔬",
    "3.14",
    "a_b",
    "x=y",
    "C++",
    "50%",
    "e.g.",
    "“quoted”",
    "—",
    "#42",
    "@me",
    "A&B",
    "don't",
    "नमस्ते",
    "z̵",
    "٣٤",
    "1,200.50",
    "--flag",
    "v1.2",
    "(x)",
    "~5",
    "wörd",
    "２０",
    "x!",
    "y?",
    "«z»",
)
# Separated by "¶", which is in none of them.
NOISE = (
    "*",
    "**",
    "***",
    "_",
    "__",
    "~~",
    "`",
    "``",
    "```",
    "[",
    "]",
    "](",
    "](https://e.com/a_(b))",
    "![",
    "||",
    "|",
    "\n",
    "\n\n",
    "\n- ",
    "\n1. ",
    "\n> ",
    "\n# ",
    "\\",
    "\\*",
    "\n| a | b |\n|---|---|\n| c | d |\n",
    "\n```py\n",
    "\n---\n",
    "&amp;",
    "&#x41;",
    "<b>",
    "</b>",
    "<br>",
    "<T>",
    "<!-- c -->",
    "$x_1$",
    "\\(y^2\\)",
    "\t",
    "    ",
    " ",
    " ",
    " ",
    "https://e.com/a_b*c",
    "<https://e.com>",
    "\u200b",
    "\u202e",
    "\u2028",
    "\x00",
    "\r\n",
    "̊",
    "[^1]",
    "\n[^1]: x",
    "\n[r]: https://e.com\n",
    "[r]",
    ":",
    "!",
    ")",
    "(",
    "}",
    "{",
    "+",
    "=",
    ".",
    ">",
)
# Every way for a channel to like or dislike an address.
ADDRESSES = (
    "https://e.com/a_(b)?q=*x*&y",
    "docs/guide.md",
    "#anchor",
    "http://localhost:80/x",
    "ftp://e.com/f",
    "https://e.com?x=1",
    "tg://user?id=1",
    "mailto:a@b.co",
)


@dataclass(frozen=True)
class Generated:
    """Markdown, and the words in it that every reader must see."""

    source: str
    words: tuple[str, ...]


class _Writer:
    """Writes random, well-formed Markdown."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.words: list[str] = []

    def word(self) -> str:
        word = self.random.choice(WORDS)
        self.words.append(word)
        return word

    def phrase(self, longest: int = 4) -> str:
        return " ".join(self.word() for _ in range(self.random.randint(1, longest)))

    def styled(self, depth: int = 0) -> str:
        inner = self.phrase() if depth > 2 else self.inline(depth + 1, 2)
        marks = ("**", "*", "__", "_", "***", "~~")
        mark = self.random.choice(marks[:-1] if inner[0] == "~" else marks)  # "~~~~" is a fence
        return f"{mark}{inner}{mark}"

    def inline(self, depth: int = 0, longest: int = 5) -> str:
        return " ".join(self.piece(depth) for _ in range(self.random.randint(1, longest)))

    def piece(self, depth: int) -> str:
        kind = self.random.randrange(10)
        if kind < 5 or depth > 2:
            return self.phrase()
        if kind < 7:
            return self.styled(depth)
        if kind == 7:
            return f"`{self.word()} {self.random.choice(('a*b', 'x_y', '|', '||', '<b>'))}`"
        if kind == 8:
            address = self.random.choice(ADDRESSES)
            return f"[{self.phrase(2)}]({address})"
        return f"![{self.word()}](https://e.com/i.png)"

    def block(self, depth: int = 0) -> str:
        kinds: list[Callable[[], str]] = [
            self.inline, self.inline, self.heading, self.fence, self.table, self.rule
        ]  # fmt: skip
        if depth < 3:
            kinds += [lambda: self.quote(depth), lambda: self.list(depth), lambda: self.list(depth)]
        return self.random.choice(kinds)()

    def heading(self) -> str:
        return f"{'#' * self.random.randint(1, 6)} {self.inline(1, 3)}"

    def rule(self) -> str:
        return "---"

    def fence(self) -> str:
        mark = self.random.choice(("```", "~~~", "````"))
        body = "\n".join(f"{' ' * self.random.randrange(5)}{self.phrase()}" for _ in range(3))
        return f"{mark}{self.random.choice(('', 'py', 'c++'))}\n{body}\n{mark}"

    def table(self) -> str:
        columns = self.random.randint(1, 4)
        rows = [[self.word() for _ in range(columns)] for _ in range(self.random.randint(1, 4))]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines.insert(
            1,
            "|" + "|".join(self.random.choice(("---", ":-:", "--:")) for _ in range(columns)) + "|",
        )
        return "\n".join(lines)

    def quote(self, depth: int) -> str:
        return "\n".join(f"> {line}" for line in self.block(depth + 1).split("\n"))

    def list(self, depth: int) -> str:
        mark = self.random.choice(("- ", "* ", "1. ", "- [ ] "))
        items = []
        for _ in range(self.random.randint(1, 3)):
            pad = "\n" + " " * (len(mark) if mark != "- [ ] " else 2)
            items.append(mark + self.block(depth + 1).replace("\n", pad))
        return "\n".join(items)


def well_formed(seed: int) -> Generated:
    """Generate nested Markdown whose words are all known."""
    writer = _Writer(seed)
    source = "\n\n".join(writer.block() for _ in range(writer.random.randint(1, 4)))
    return Generated(source, tuple(writer.words))


def noise(seed: int) -> str:
    """Generate words and markers in any order."""
    chance = random.Random(seed)
    parts = [
        chance.choice(WORDS if chance.random() < 0.5 else NOISE)
        for _ in range(chance.randint(1, 40))
    ]
    return "".join(parts)


def descriptions(*, content_type: str = "") -> Iterator[tuple[str, str]]:
    """Return (name, text) of installed packages' own descriptions, of this type or of any."""
    for distribution in metadata.distributions():
        message = email.message_from_string(distribution.read_text("METADATA") or "")
        text = message.get_payload()
        shape = message.get("Description-Content-Type", "")
        if isinstance(text, str) and text.strip() and shape.startswith(content_type):
            yield f"{distribution.name} description", text


def of_packages() -> Iterator[tuple[str, str]]:
    """Return (name, text) of the descriptions and documents of all installed packages."""
    yield from descriptions()
    library = Path(sysconfig.get_path("purelib"))
    for path in sorted(library.rglob("*")):
        named = path.name.startswith(("LICENSE", "README")) and path.suffix not in (".py", ".pyc")
        if (named or path.suffix in (".md", ".rst")) and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if text.strip():
                yield str(path.relative_to(library)), text
