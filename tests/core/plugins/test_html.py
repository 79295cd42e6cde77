"""[L1] [L4] HTML slides: one file, nothing from elsewhere, text that stays text."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from core.plugins.html_slides import PLUGIN
from core.plugins.html_slides.html_file import document
from core.plugins.slides import layout
from core.plugins.slides.deck import (
    BulletsSlide,
    Chart,
    ChartKind,
    ChartSlide,
    ContentsSlide,
    Deck,
    Point,
    Series,
    Slide,
    TableSlide,
    TitleSlide,
)
from tests.core.plugins.decks import ARABIC, ENGLISH
from tests.core.plugins.hosts import ScriptedHost, good, topic

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}</style>&#x27;"


class Tags(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect one tag."""
        self.found.append((tag, dict(attrs)))


def html_of(deck: Deck) -> str:
    """Return the file of a deck."""
    return document(layout.pages(deck), title=deck.title, language=deck.language)


def tags(html: str) -> list[tuple[str, dict[str, str | None]]]:
    """Return the tags of a page with their attributes."""
    parser = Tags()
    parser.feed(html)
    return parser.found


async def test_the_plugin_makes_one_file(tmp_path: Path) -> None:
    """[L1]"""
    host = ScriptedHost(tmp_path, good)
    result = await PLUGIN.run("create_from_source", {}, topic("clean power"), host)
    (file,) = result.files
    assert (file.name, file.mime) == ("Clean power.html", "text/html")
    assert "Sun on every roof" in file.path.read_text(encoding="utf-8")


def test_billions_are_short_on_a_chart_and_exact_in_words() -> None:
    chart = Chart("column", ["US", "DE"], [Series("", [27_360_935_000_000, 4_456_081_000_000])])
    shown = html_of(Deck("GDP", "en-US", [ChartSlide("GDP", chart)]))
    assert "US 27,360,935,000,000" in shown  # alternative text
    assert ">4,456 × 10⁹</text>" in shown
    assert ">27,361 × 10⁹</text>" in shown
    assert "e+" not in shown


def test_nothing_is_loaded_from_elsewhere() -> None:
    """Self-contained: no src, no link, no url()."""
    html = html_of(ENGLISH)
    for _tag, attributes in tags(html):
        assert not {"src", "href", "srcset", "action", "data", "poster"} & set(attributes)
    assert "url(" not in html
    assert "@import" not in html
    assert "http:" not in html.replace("http-equiv", "")


def test_its_own_policy_names_its_one_script_by_hash() -> None:
    """[L4] A second script could not run, even where escaping failed."""
    html = html_of(ENGLISH)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert "default-src 'none'" in html


@pytest.mark.parametrize("language", ["en-US", "ar-SA"])
def test_hostile_text_is_escaped_everywhere(language: str) -> None:
    """Titles, points, notes, tables, charts, labels."""
    series = [Series(EVIL, [1, 2, 3]), Series(EVIL, [2, 3, 4])]
    slides: list[Slide] = [
        TitleSlide(EVIL, EVIL, EVIL),
        BulletsSlide(EVIL, [Point(EVIL, EVIL)], EVIL, EVIL),
        TableSlide(EVIL, [EVIL, EVIL], [[EVIL, EVIL]], EVIL, EVIL),
        *(
            ChartSlide(EVIL, Chart(kind, [EVIL] * 3, series, EVIL), [Point(EVIL)])
            for kind in get_args(ChartKind)
        ),
    ]
    found = tags(html_of(Deck(EVIL, language, slides)))
    names = [tag for tag, _attributes in found]
    assert names.count("script") == 1
    assert "img" not in names
    for _tag, attributes in found:
        assert not any(name.startswith("on") for name in attributes)


def test_it_is_a_document_without_its_script() -> None:
    """[L4] Headings, lists, tables, figures with labels; nothing is hidden but the buttons."""
    found = tags(html_of(ENGLISH))
    names = [tag for tag, _attributes in found]
    assert names.count("section") == len(ENGLISH.slides)
    assert names.count("h1") == 1
    assert {"h2", "ul", "ol", "table", "th", "svg", "nav"} <= set(names)
    assert [tag for tag, attributes in found if "hidden" in attributes] == ["nav"]
    labels = [attributes.get("aria-label") for tag, attributes in found if tag == "svg"]
    assert labels[0] is not None
    assert labels[0].startswith("Line chart: Solar is catching up with coal.")


def test_language_and_direction_are_said() -> None:
    """For the browser's own shaping, and for screen readers."""
    assert '<html lang="ar-SA" dir="rtl">' in html_of(ARABIC)
    assert '<html lang="en-US" dir="ltr">' in html_of(ENGLISH)


def test_numbers_run_from_left_to_right_and_contents_are_numbered_on() -> None:
    """As in the .pptx: a sign stays in front of its number, and a second page goes on counting."""
    rows = [["رياح", "-1,400"], ["غاز", "900"]]
    html = html_of(Deck("ع", "ar-SA", [TableSlide("جدول", ["المصدر", "يورو"], rows)]))
    assert '<td class=n><bdi dir="ltr">-1,400</bdi></td>' in html
    assert "<th class=n>يورو</th>" in html
    entries = [f"Section {at} about something of note" for at in range(1, 21)]
    html = html_of(Deck("n", "en-US", [ContentsSlide("Contents", entries)]))
    first, second = [attrs for tag, attrs in tags(html) if tag == "ol"]
    on_the_first = html.split("</ol>")[0].count("<li>")
    assert (first["start"], second["start"]) == ("1", str(on_the_first + 1))
    assert f"counter-reset:point {on_the_first};" in str(second["style"])
