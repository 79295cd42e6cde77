"""[L1] Decks as other programs draw them: LibreOffice and Chromium, geometry and behaviour."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pypdfium2
import pytest
from playwright.sync_api import Browser, Page

from core.plugins.html_slides.html_file import document
from core.plugins.ppt_generation.pptx_file import save
from core.plugins.slides import deck as d
from core.plugins.slides import layout
from core.plugins.slides.deck import Deck, Point
from core.plugins.slides.fit import whole
from core.plugins.slides.page import Element, Grid, Plot, Text
from core.plugins.slides.page import Page as DeckPage
from core.plugins.slides.theme import FOOT_HEIGHT, FOOT_Y, HEIGHT, WIDTH, foot
from tests.chromium import browser
from tests.core.plugins.decks import DECKS

__all__ = ["browser"]

pytestmark = pytest.mark.slow

CONVERT_SECONDS = 280
# Accents above the first line, descents below the last one, side bearings.
TOLERANCE = 5.0
LONG = (
    "Lines from the windy north to the factories in the south take ten years to permit, and the "
    "neighbours want to be asked before the first mast stands. "
)
FULL = Deck(
    "A deck that is as full as it may be, with a title that goes on for longer than is wise",
    "en-US",
    [
        d.TitleSlide("A title of many words that has to be set smaller than others " * 2, LONG),
        d.ContentsSlide("Everything in here", [f"{at}. {LONG[:70]}" for at in range(8)]),
        d.SectionSlide(LONG[:90], 1),
        d.BulletsSlide(LONG[:85], [Point(LONG) for _at in range(5)], LONG),
        d.BulletsSlide("Cards", [Point(LONG[:150], LONG[:34]) for _at in range(4)]),
        d.BulletsSlide("One long word", [Point("Donaudampfschifffahrt" * 25), Point("x" * 500)]),
        d.ColumnsSlide("Two", (LONG[:60], "Right"), ([Point(LONG)] * 4, [Point(LONG)] * 2)),
        d.TableSlide("Table", ["A", "B", "C", "D"], [[LONG[:90], "12", LONG, "x"]] * 9),
        d.QuoteSlide(LONG * 2, LONG[:40]),
        d.ClosingSlide("End", [Point(LONG) for _at in range(4)]),
    ],
)
FULL_CHINESE = Deck(
    "人工智能在医疗中的应用" * 6,
    "zh-CN",
    [
        d.TitleSlide("人工智能在医疗中的应用" * 6, "从影像诊断到药物研发，今天能做什么。" * 4),
        d.BulletsSlide(
            "数据分散在各家医院" * 8,
            [Point("数据分散，格式不一；“隐私保护”要求数据不出院区。" * 5)] * 4,
        ),
        d.BulletsSlide("卡片", [Point("数据分散，格式不一，难以共享。" * 4, "影像诊断")] * 3),
    ],
)
RENDERED = {**DECKS, "full": FULL, "full-zh": FULL_CHINESE}


@dataclass(frozen=True)
class Box:
    """A rectangle on a page; points from the upper left."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, x: float, y: float) -> bool:
        """Return whether a point is in it, or within a tolerance beside it."""
        sides = self.left - TOLERANCE <= x <= self.right + TOLERANCE
        return sides and self.top - TOLERANCE <= y <= self.bottom + TOLERANCE


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return each deck as the PDF that LibreOffice makes of its .pptx."""
    folder = tmp_path_factory.mktemp("rendered")
    for name, deck in RENDERED.items():
        path = folder / f"{name}.pptx"
        save(layout.pages(deck), title=deck.title, language=deck.language, path=path)
    program = shutil.which("soffice") or shutil.which("libreoffice")
    assert program, "LibreOffice is missing: apt-get install libreoffice-impress-nogui"
    subprocess.run(
        [
            *(program, f"-env:UserInstallation=file://{folder}/profile", "--headless"),
            *("--convert-to", "pdf", "--outdir", str(folder)),
            *(str(folder / f"{name}.pptx") for name in RENDERED),
        ],
        check=True,
        capture_output=True,
        timeout=CONVERT_SECONDS,
    )
    return {name: folder / f"{name}.pdf" for name in RENDERED}


def box_of(element: Element) -> Box | None:
    """Return the box of an element that may hold text."""
    match element:
        case Text() | Plot():
            return Box(element.x, element.y, element.x + element.w, element.y + element.h)
        case Grid():
            right, bottom = element.x + sum(element.widths), element.y + sum(element.heights)
            return Box(element.x, element.y, right, bottom)
    return None


def boxes_of(page: DeckPage) -> list[Box]:
    """Return every place of a page where text may stand."""
    found = [box for element in page.elements if (box := box_of(element)) is not None]
    if foot(page.layout) is not None:
        found.append(Box(40, FOOT_Y, WIDTH - 40, FOOT_Y + FOOT_HEIGHT))
    return found


def letters(page: pypdfium2.PdfPage) -> Iterator[tuple[str, float, float]]:
    """Return each visible letter of a rendered page and its centre, from the upper left."""
    text = page.get_textpage()
    for at in range(text.count_chars()):
        letter = text.get_text_range(at, 1)
        if letter.strip():
            left, bottom, right, top = text.get_charbox(at)
            yield letter, (left + right) / 2, HEIGHT - (bottom + top) / 2


@pytest.mark.parametrize("name", RENDERED)
def test_no_text_leaves_its_box_when_libreoffice_draws_it(
    rendered: dict[str, Path], name: str
) -> None:
    """[L1] From the rendered geometry: every letter stands in a box that was meant for text."""
    pages = layout.pages(RENDERED[name])
    drawn = pypdfium2.PdfDocument(str(rendered[name]))
    assert len(drawn) == len(pages)
    for page, sheet in zip(pages, drawn, strict=True):
        assert sheet.get_size() == pytest.approx((WIDTH, HEIGHT), abs=0.5)
        boxes = boxes_of(page)
        count = 0
        for letter, x, y in letters(sheet):
            count += 1
            assert any(box.holds(x, y) for box in boxes), (page.number, page.title, letter, x, y)
        assert count > 0, f"page {page.number} shows nothing"


@pytest.mark.parametrize("name", ["en", "full"])
def test_each_box_shows_all_of_its_own_text(rendered: dict[str, Path], name: str) -> None:
    """[L1] Nothing slid into a neighbour's box, nothing was cut off."""
    drawn = pypdfium2.PdfDocument(str(rendered[name]))
    for page, sheet in zip(layout.pages(RENDERED[name]), drawn, strict=True):
        text = sheet.get_textpage()
        for element in page.elements:
            box = box_of(element)
            if not isinstance(element, Text) or box is None:
                continue
            inside = text.get_text_bounded(
                left=box.left - TOLERANCE,
                right=box.right + TOLERANCE,
                bottom=HEIGHT - box.bottom - TOLERANCE,
                top=HEIGHT - box.top + TOLERANCE,
            )
            for point in element.paragraphs:
                assert bare(whole(point)) in bare(inside), (page.number, element.role)


def bare(text: str) -> str:
    """Return ``text`` without characters that line breaks change."""
    return "".join(character for character in text if character.isalnum())


@dataclass
class Show:
    """An open slide show, with its page's requests and errors."""

    page: Page
    problems: list[str]
    requests: list[str]

    def position(self) -> str:
        """Return the counter, "3 / 12"."""
        return self.page.locator("output").inner_text()


def opened(browser: Browser, deck: Deck, *, sandbox: str = "", script: bool = True) -> Show:
    """Open ``deck`` as the file service serves it: with a sandboxing policy where one is given."""
    context = browser.new_context(
        viewport={"width": 960, "height": 540}, java_script_enabled=script, has_touch=True
    )
    page = context.new_page()
    page.set_default_timeout(30_000)
    show = Show(page, [], [])
    page.on("console", lambda message: show.problems.append(message.text))
    page.on("pageerror", lambda error: show.problems.append(str(error)))
    page.on("request", lambda request: show.requests.append(request.url))
    html = document(layout.pages(deck), title=deck.title, language=deck.language)
    headers = {"Content-Type": "text/html; charset=utf-8"}
    if sandbox:
        headers["Content-Security-Policy"] = sandbox
    page.route("**/*", lambda route: route.fulfill(body=html, headers=headers))
    page.goto("http://slides.test/deck")
    return show


SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)


@pytest.mark.parametrize("sandbox", ["", SANDBOX], ids=["file", "sandboxed"])
def test_the_keyboard_moves_through_the_slides(browser: Browser, sandbox: str) -> None:
    """[L1] [L4] Arrows, space, home, end; also in a sandbox; no request, no console error."""
    show = opened(browser, DECKS["en"], sandbox=sandbox)
    assert show.position() == "1 / 12"
    for key, expected in (
        ("ArrowRight", "2 / 12"),
        (" ", "3 / 12"),
        ("PageDown", "4 / 12"),
        ("ArrowLeft", "3 / 12"),
        ("Shift+ ", "2 / 12"),
        ("End", "12 / 12"),
        ("ArrowRight", "12 / 12"),
        ("Home", "1 / 12"),
        ("ArrowLeft", "1 / 12"),
    ):
        show.page.keyboard.press(key)
        assert show.position() == expected, key
        assert show.page.locator(".slide:visible").count() == 1
    show.page.keyboard.press("Escape")
    assert show.page.locator(".slide:visible").count() == 12
    assert show.problems == []
    assert show.requests == ["http://slides.test/deck"]
    show.page.context.close()


def test_a_swipe_turns_the_page(browser: Browser) -> None:
    """[L1] Touch; from right to left in an English deck, the other way in an Arabic one."""
    for name, start, end in (("en", 700, 200), ("ar", 200, 700)):
        show = opened(browser, DECKS[name])
        show.page.evaluate(
            """([from, to]) => {
                const at = (x) => new Touch(
                    {identifier: 1, target: document.body, clientX: x, clientY: 200});
                document.body.dispatchEvent(new TouchEvent("touchstart",
                    {bubbles: true, touches: [at(from)], changedTouches: [at(from)]}));
                document.body.dispatchEvent(new TouchEvent("touchend",
                    {bubbles: true, touches: [], changedTouches: [at(to)]}));
            }""",
            [start, end],
        )
        assert show.position().startswith("2 /")
        show.page.context.close()


@pytest.mark.parametrize("name", ["en", "ar", "full"])
def test_it_prints_one_page_a_slide(browser: Browser, tmp_path: Path, name: str) -> None:
    """[L1] Print to PDF: 16:9 pages, each with its text in its boxes."""
    show = opened(browser, RENDERED[name])
    target = tmp_path / "printed.pdf"
    show.page.pdf(path=str(target), prefer_css_page_size=True, print_background=True)
    show.page.context.close()
    pages = layout.pages(RENDERED[name])
    printed = pypdfium2.PdfDocument(str(target))
    assert len(printed) == len(pages)
    for page, sheet in zip(pages, printed, strict=True):
        assert sheet.get_size() == pytest.approx((WIDTH, HEIGHT), abs=1)
        for letter, x, y in letters(sheet):
            assert any(box.holds(x, y) for box in boxes_of(page)), (page.number, letter, x, y)


OVERFLOWS = """() => [...document.querySelectorAll(".t, td, th")]
    .filter((box) => box.scrollHeight > box.clientHeight + 4
        || box.scrollWidth > box.clientWidth + 4)
    .map((box) => box.textContent.slice(0, 60))"""


@pytest.mark.parametrize("name", RENDERED)
def test_no_text_leaves_its_box_in_a_browser(browser: Browser, name: str) -> None:
    """[L1] By the browser's own measures, in the scrolling view that shows all slides."""
    show = opened(browser, RENDERED[name])
    show.page.keyboard.press("Escape")
    assert show.page.evaluate(OVERFLOWS) == []
    show.page.context.close()


def test_without_scripts_it_is_a_page_to_scroll(browser: Browser) -> None:
    """[L4] A sandbox without scripts: every slide is there."""
    show = opened(browser, DECKS["en"], sandbox="sandbox", script=False)
    assert show.page.locator(".slide:visible").count() == 12
    assert show.page.get_by_text("What the grid needs next").is_visible()
    assert not show.page.locator("nav").is_visible()
    show.page.context.close()
