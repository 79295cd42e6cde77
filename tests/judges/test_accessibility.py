"""axe-core on every page of the gateway, light and dark, on a phone and on a desktop.

``make test`` opens a tenth of the pages, another one each day: each once, in a scheme and a width
that change from run to run, and then changes both; the pages of the chat are opened in both widths.
In the other scheme of a width only the rules of colours are asked. ``JUDGES_ALL=1`` (``make soak``)
opens every page in all four, for all rules. ``JUDGES_TURN`` with ``TEST_TURN`` repeats a run.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from typing import Any, Literal

import pytest
from django.contrib import admin
from django.urls import URLPattern
from playwright.sync_api import Browser, BrowserContext, Page

from gateway_project.urls import VIEWS, urlpatterns
from tests.judges import baselines, page_states
from tests.judges.conftest import MOST_SECONDS, Filled, signed_in
from tests.judges.page_states import NO_PAGE, NO_PAGE_IN_ADMIN, SOME, PageState, may, table_of
from tests.npm import Packages
from tests.run import of_this_turn

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, Scheme] = ("light", "dark")
SIZES = {390: 844, 1280: 800}
TURN = "judges/turn"
DAYS = 10  # until each page was seen
# All that is a rule or a good practice, of WCAG 2.2 AA; and what a scheme changes.
EVERYTHING = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = ["color-contrast", "link-in-text-block"]
RUN = """async (rules) => (await axe.run(document, {
  resultTypes: ["violations"], runOnly: rules,
})).violations.flatMap(({ id, help, nodes }) =>
  nodes.map(({ target, html }) => [id, help, target.join(" "), html.slice(0, 200)]))"""

# Colours that change with the scheme have arrived: a transition is none that axe may measure. An
# element that inherits a colour begins its own transition when that of its parent has ended.
SETTLED = """async () => {
  const bounded = ({ effect }) => Number.isFinite(effect.getComputedTiming().endTime);
  let running;
  do {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    running = document.getAnimations().filter(bounded);
    await Promise.allSettled(running.map((each) => each.finished));
  } while (running.length);
}"""


@dataclass
class Seen:
    """The violations that axe found, each with its pages."""

    violations: dict[str, list[str]] = field(default_factory=dict)
    looks: int = 0

    def take(self, found: list[list[str]], where: str) -> None:
        """Note what axe found on a page."""
        self.looks += 1
        for rule, words, target, html in found:
            what = f"{rule}: {words}: {target}\n    {html}"
            self.violations.setdefault(what, []).append(where)

    def __str__(self) -> str:
        return "\n".join(
            f"{what}\n    {len(where)}: {', '.join(where[:6])}"
            for what, where in sorted(self.violations.items())
        )


def names_of_pages() -> tuple[set[str], set[str]]:
    """Return the names of all addresses that Django serves: our own, and those of the admin."""
    programs = {str(each.pattern) for each in VIEWS}
    found = [
        each for each in page_states.patterns(urlpatterns) if str(each.pattern) not in programs
    ]
    own = {str(each.name or each.pattern) for each in found}
    theirs = {str(each.name) for each in admin.site.get_urls() if isinstance(each, URLPattern)}
    for model, page in admin.site._registry.items():
        named = {str(each.name) for each in page.get_urls()}
        kinds = [*SOME, *({"add"} if not may(model, "add") else ())]
        theirs |= named - {f"{table_of(model)}_{kind}" for kind in kinds}
    return own, theirs - {"None"}


def names_of_seen_pages() -> set[str]:
    """Return the names of the addresses that are seen."""
    made: Any = Anything()
    return {each.url for turn in range(50) for each in page_states.every(made, turn)}


class Anything(dict[str, Any]):
    """Addresses that nothing has made yet."""

    def __missing__(self, key: str) -> Any:
        return Anything({"pk": 1})

    def __str__(self) -> str:
        return "/"


def test_w70_every_address_is_seen_or_is_no_page() -> None:
    """[W70] From the URLconf and the registry of the admin: a new page needs an entry, and what is
    left out is an address still, and no page of a table."""
    own, theirs = names_of_pages()
    seen = names_of_seen_pages()
    assert own | theirs <= seen | set(NO_PAGE) | set(NO_PAGE_IN_ADMIN)
    assert set(NO_PAGE) <= own
    assert set(NO_PAGE_IN_ADMIN) <= theirs
    assert not seen & {*NO_PAGE, *NO_PAGE_IN_ADMIN}


@pytest.fixture
def turn(pytestconfig: pytest.Config) -> int:
    """Return the number of this run: the next one after a run that passed."""
    assert pytestconfig.cache is not None
    known = pytestconfig.cache.get(TURN, datetime.now(UTC).toordinal())
    return int(os.environ.get("JUDGES_TURN", known))


@pytest.fixture(scope="module")
def contexts(browser: Browser, filled: Filled) -> Iterator[dict[tuple[int, bool], BrowserContext]]:
    """Yield a window of each width, of the owner and of a stranger."""
    state = signed_in(browser, filled.gateway.base_url, "ada")
    made = {
        (width, is_known): browser.new_context(
            viewport={"width": width, "height": height},
            storage_state=state if is_known else None,
            bypass_csp=True,  # pages without scripts would run none of axe's either
        )
        for (width, height), is_known in product(SIZES.items(), (True, False))
    }
    yield made
    for each in made.values():
        each.close()


@dataclass(frozen=True)
class Look:
    """A page in a width and a scheme, and the rules that are asked."""

    width: int
    scheme: Scheme
    rules: list[str] = field(default_factory=lambda: EVERYTHING)


def looks_of(shown: PageState, number: int, turn: int) -> list[list[Look]]:
    """Return how a page is looked at in this run: for each time that it is opened, the looks."""
    if os.environ.get("JUDGES_ALL") == "1":
        return [[Look(width, scheme)] for width, scheme in product(SIZES, SCHEMES)]
    place = (number + turn) // DAYS % 4  # a page is seen on one day of so many
    widths = list(SIZES)[:: -1 if place % 2 else 1]
    first, second = SCHEMES[:: -1 if place // 2 else 1]
    looks = [[Look(each, first), Look(each, second, COLOURS)] for each in widths]
    return looks if shown.whole else [[*looks[0], *looks[1]]]


@contextmanager
def tab_for(shown: PageState, context: BrowserContext) -> Iterator[Page]:
    """Yield the tab in which one page follows the other, since a new one costs as much as a look;
    a tab of its own for a page whose state would stay.
    """
    if shown.act is None and not shown.html and not shown.cut:
        yield context.pages[0] if context.pages else context.new_page()
        return
    for each in context.pages:
        each.close()
    with context.new_page() as page:
        yield page


def opened(page: Page, base: str, shown: PageState) -> None:
    """Lead ``page`` to a page in its state."""
    if shown.html:
        fulfil = {"body": shown.html, "content_type": "text/html"}
        page.route(f"**{shown.path}", lambda route: route.fulfill(**fulfil))
    if shown.cut:
        page.route_web_socket(re.compile("."), lambda socket: socket.close())
    address = shown.path if shown.path.startswith("http") else base + shown.path
    answer = page.goto(address)
    assert answer is not None
    assert (answer.status, page.url) == (shown.status, address), shown.name
    if shown.act:
        shown.act(page)


def dress(page: Page, look: Look) -> None:
    """Give ``page`` the width and the scheme of a look."""
    page.emulate_media(color_scheme=look.scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": look.width, "height": SIZES[look.width]})


@pytest.mark.slow
@pytest.mark.timeout(MOST_SECONDS)
def test_w71_axe_finds_nothing_on_any_page(
    filled: Filled,
    judges: Packages,
    contexts: dict[tuple[int, bool], BrowserContext],
    turn: int,
    pytestconfig: pytest.Config,
) -> None:
    """[W71] Rules of WCAG 2.2 AA and good practices, on our pages and on those of the admin."""
    axe = (judges.folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    seen = Seen()
    pages = enumerate(page_states.every(filled.made, turn))
    for number, shown in of_this_turn(pages, parts=DAYS):
        for looks in looks_of(shown, number, turn):
            with tab_for(shown, contexts[looks[0].width, shown.signed_in]) as page:
                dress(page, looks[0])
                opened(page, filled.gateway.base_url, shown)
                page.evaluate(axe)
                for look in looks:
                    if look is not looks[0]:
                        dress(page, look)
                        page.evaluate(SETTLED)
                    where = f"{shown.name} ({look.scheme}, {look.width})"
                    seen.take(page.evaluate(RUN, look.rules), where)
    print(f"{seen.looks} looks, JUDGES_TURN={turn}")
    count = sum(map(len, seen.violations.values()))
    baselines.check("axe.violations", count, detail=f"JUDGES_TURN={turn}\n{seen}")
    assert pytestconfig.cache is not None
    pytestconfig.cache.set(TURN, turn + 1)
