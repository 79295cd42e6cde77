"""A text shown while it is written: no raw marker, little taken back, stable cuts."""

import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels_app.telegram import adapter
from core import markdown

from . import texts
from .mdb import corpus
from .test_total import SPECIALS

CORPUS = os.environ.get("LATCHKEY_ORACLE_CORPUS", "")
# Characters that look like markers in a chat when the finished message does not have them.
RAW = re.compile(r"\*\*|__|~~|```|\]\(|\|\||</?(?:b|i|u|s|code)>|^#{1,6} |[*_`\[]$", re.MULTILINE)
ANSWER = """Here is **what I found** about `git rebase`, see [the docs](https://git-scm.com/docs).

## Steps

1. **Fetch** the branch: `git fetch origin`
2. *Rebase* onto it, then ~~merge~~ push
   - use `--force-with-lease`, not `--force`
   - read [this page](https://example.com/a_(b)) first
3. Check that 10*20*30 = 6000 and `src/**/*.ts` is clean

| Command | What it does | Safe |
|---|---|:-:|
| `git fetch` | gets commits | ✅ |
| `git rebase` | moves commits | ⚠️ |

```python
def rebase(branch: str) -> None:
    run(["git", "rebase", branch])  # **not bold**
```

> [!NOTE]
> A rebase **rewrites** history; *never* rewrite what others have.

- [ ] open a pull request
- [x] run the tests, all of __them__

Formula: $E = mc^2$, H<sub>2</sub>O, a <b>tag</b> &amp; an entity. See also ![a
chart](https://example.com/c.png) and <https://example.com>. That is all, ***really***.
"""


def moments(source: str, seed: int) -> Iterable[str]:
    """Yield the text at each moment: as a model sends it, in pieces of a few words."""
    chance, at = random.Random(seed), 0
    while at < len(source):
        at += chance.randint(4, 50)
        yield source[:at]


def shown(text: str, *, whole: bool) -> list[str]:
    """Return the messages of a chat at one moment, as the channel renders them."""
    blocks = adapter.render(text) if whole else adapter.render_growing(text)
    return [block["text"] for block in blocks]


def linked(seed: int) -> str:
    """Return a generated document whose links Telegram takes; others are written out at the end."""
    source = texts.well_formed(seed).source
    for address in texts.ADDRESSES:
        source = source.replace(f"]({address})", "](https://e.com/x)")
    return source


class Measure:
    """Counts of the display of some documents at each moment."""

    def __init__(self) -> None:
        self.taken_back = self.shown = self.raw = self.moments = self.changed = 0

    def read(self, source: str, seed: int) -> None:
        """Display one document from its first words to its end."""
        final = shown(source, whole=True)
        markers = Counter(RAW.findall("\n".join(final)))
        before: list[str] = []
        for text in moments(source, seed):
            now = shown(text, whole=len(text) >= len(source))
            self._compare(before, now, markers)
            before = now
        self.shown += sum(map(len, final))

    def _compare(self, before: list[str], now: list[str], markers: Counter[str]) -> None:
        old, new = "\n".join(before), "\n".join(now)
        kept = next(
            (at for at, pair in enumerate(zip(old, new, strict=False)) if len(set(pair)) > 1),
            min(len(old), len(new)),
        )
        self.taken_back += len(old) - kept
        self.raw += bool(Counter(RAW.findall(new)) - markers)
        self.moments += 1
        full = before[:-1]
        self.changed += sum(one != other for one, other in zip(full, now, strict=False))
        self.changed += max(0, len(full) - len(now))

    def check(self) -> None:
        """Check the floors of the product."""
        assert 1000 * self.taken_back / self.shown <= 60, self.taken_back
        assert 100 * self.raw / self.moments <= 1, (self.raw, self.moments)
        assert self.changed == 0


def test_c5_a_growing_answer_takes_little_back_and_shows_no_marker() -> None:
    """Documents of our own, streamed in several ways."""
    measure = Measure()
    for seed in range(8):
        measure.read(ANSWER, seed)
        measure.read("\n\n".join(linked(seed * 10 + n) for n in range(5)), seed)
    measure.check()


@pytest.mark.unmeasured
def test_c5_the_messages_of_a_long_answer_stay_as_they_were_cut() -> None:
    """None is edited again once the next one has begun, and not at the end either."""
    measure = Measure()
    for seed in range(2):
        measure.read(ANSWER * (8 + seed), seed)
    assert measure.changed == 0


@pytest.mark.unmeasured
def test_c5_a_wide_table_at_the_end_changes_no_table_that_was_shown() -> None:
    """It is a list; the grids before it stay, also in messages that are full."""
    row = " | ".join(["some longer words of a cell"] * 3)
    wide = f"\n\n| A | B | C |\n|---|---|---|\n| {row} |\n\nThe end of it.\n"
    measure = Measure()
    measure.read(ANSWER * 6 + wide, 1)
    measure.check()


@pytest.mark.unmeasured
@pytest.mark.skipif(not CORPUS, reason="LATCHKEY_ORACLE_CORPUS names no corpus")
def test_c5_answers_of_the_corpus_grow_quietly() -> None:
    """The same floors over answers of models."""
    measure = Measure()
    for number, document in enumerate(corpus.load(Path(CORPUS))):
        if document.section == "llm":
            measure.read(document.text, number)
    measure.check()


@pytest.mark.parametrize(
    ("source", "view"),
    [
        ("**Ste", "**Ste**"),
        ("a **Step*", "a **Step**"),
        ("[docs](https://ex", "docs"),
        ("see [docs", "see docs"),
        ("[a](https://e.com/x_(y", "a"),
        ("a ![chart](https://e", "a"),
        ("[![alt](https://e.com/i.png)](htt", ""),
        ("`co", "`co`"),
        ("**bold `co", "**bold `co`**"),
        ("x `", "x"),
        ("a ~~b *c", "a ~~b *c*~~"),
        ("<b>x", "<b>x</b>"),
        ("a <b", "a"),
        ("- ", ""),
        ("1. a\n2", "1. a"),
        ("**a\n-", "**a**"),
        ("> [!NO", ""),
        ("- [x", ""),
        ("text\n\n#", "text"),
        ("a\n```py", "a"),
        ("a\n```py\nx = 1\ny = ", "a\n```py\nx = 1"),
        ("a\n```py\nx = 1\n```", "a\n```py\nx = 1\n```"),
        ("````\n```\nx\n```\n````", "````\n```\nx\n```\n````"),
        ("a\n\n| a | b |\n|--", "a"),
        ("a\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nb", "a\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nb"),
        ("x $\\frac{a", "x"),
        ("price $5 and", "price $5 and"),
        ("5 * 3 = 15", "5 * 3 = 15"),
        ("call __ini", "call"),
        ("can`t and wo", "can`t and wo"),
        ("fact[^1", "fact"),
        ("", ""),
    ],
)
def test_c5_open_constructs_are_closed_and_ambiguous_ends_held_back(source: str, view: str) -> None:
    """The Markdown that is rendered at that moment."""
    assert markdown.live_view(source) == view


def test_c5_a_table_is_shown_by_whole_rows_once_it_has_some() -> None:
    """With the first rows the widths of its columns still change."""
    rows = ["| n | m |", "|---|---|", *(f"| {n} | x |" for n in range(8))]
    for size in range(1, len(rows)):
        view = markdown.live_view("\n".join(["a", "", *rows[:size]]) + "\n| 99 | y")
        assert "99" not in view
        assert view.count("\n| ") in (0, size - 1)
    assert markdown.live_view("\n".join(rows) + "\n").count("\n") == len(rows) - 1


@pytest.mark.parametrize(
    "row",
    [
        "| - |" + "   |" * 40 + " x",
        "|-" + "| " * 400 + "x",
        " " * 4000 + "x",
        ">  " * 1000 + "x",
        "- " * 1000 + "x",
        "[" + " " * 4000 + "x",
    ],
)
def test_t1_a_row_of_empty_cells_costs_no_time(row: str) -> None:
    """[T1] A board or a timetable, which no line of hyphens makes a table: with each cell it took
    four times as long, and no answer of the worker went on.
    """
    start = time.process_time()
    assert markdown.live_view(f"| a |\n{row}\n| b").startswith("| a |")
    assert markdown.live_view(f"a\n{row}") != ""
    assert time.process_time() - start < 0.5


@given(st.text(alphabet=SPECIALS, max_size=200))
def test_t1_any_text_has_a_live_view(source: str) -> None:
    """[T1]: it can be rendered, and is no longer than the text and its closing markers."""
    view = markdown.live_view(source)
    adapter.render_growing(source)
    assert len(view) <= 3 * len(source) + 8
