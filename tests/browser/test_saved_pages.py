"""A stored page reaches nothing outside, in a real Chromium. A server of the test listens and must
get no request, whatever the page holds ([L4], RF4, RX3)."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from playwright.sync_api import Browser, Dialog, Page

from core.plugins import slide_show
from core.plugins.html_slides.html_file import document
from core.plugins.slides import layout
from core.tools.save_result_page import Page as Result
from core.tools.save_result_page import page_of
from tests.browser.conftest import shell
from tests.core.plugins.decks import DECKS
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
SETTLE_MILLISECONDS = 300  # for what a page does after it was loaded
BOUND_SECONDS = 60
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


@dataclass
class Listener:
    """A server that records its requests, and a UDP port that records packets."""

    asked: list[str] = field(default_factory=list)
    packets: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen."""
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                line = self.rfile.readline(65537)
                if line:
                    asked.append(line.decode("latin-1").strip())
                self.close_connection = True

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self) -> None:
        """Note packets until the socket is closed."""
        try:
            while True:
                self.packets.append(self.udp.recv(2048))
        except OSError:
            return

    def close(self) -> None:
        """Stop."""
        self.server.shutdown()
        self.server.server_close()
        self.udp.close()

    def fill(self, text: str, way: str = "words") -> str:
        """Return ``text`` with our addresses, and ``way`` in their paths."""
        there = f"127.0.0.1:{self.server.server_port}"
        port = str(self.udp.getsockname()[1])
        return text.replace("{there}", there).replace("{udp}", port).replace("{way}", slug(way))

    def forget(self) -> None:
        """Empty the record."""
        self.asked.clear()
        self.packets.clear()

    def heard(self) -> set[str]:
        """Return the ways by which requests arrived."""
        udp = {"webrtc"} if self.packets else set()
        return udp | {way for way in WAYS for line in self.asked if f"/{slug(way)}" in line}


def slug(way: str) -> str:
    """Return ``way`` as a path."""
    return f"way-{way.replace(' ', '-')}-"


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    """Yield the server outside."""
    found = Listener()
    yield found
    found.close()


RTC = (
    "<script>const p = new RTCPeerConnection({iceServers: ["
    "{urls: 'turn:127.0.0.1:{udp}', username: 'words', credential: 'b'},"
    "{urls: 'turn:{there}?transport=tcp', username: 'words', credential: 'b'}]});"
    "p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o))</script>"
)
# Each asks the outside where nothing hinders it; all but those of NEEDS_MORE were seen to.
WAYS = {
    "location": "<script>location = 'http://{there}/{way}'</script>",
    "refresh": "<meta http-equiv=refresh content='0;url=http://{there}/{way}'>",
    "window": "<script>window.open('http://{there}/{way}')</script>",
    "form": "<form id=f action='http://{there}/{way}'></form><script>f.submit()</script>",
    "picture": "<img src='http://{there}/{way}' srcset='http://{there}/{way} 2x'>",
    "style": "<style>body { background: url(http://{there}/{way}) }</style>",
    "import": "<style>@import 'http://{there}/{way}';</style>",
    "font": "<style>@font-face { font-family: x; src: url(http://{there}/{way}) }"
    "body { font-family: x }</style>words",
    "attribute": "<p style='background: url(http://{there}/{way})'>words",
    "prefetch": "<link rel=prefetch href='http://{there}/{way}'>",
    "preload": "<link rel=preload as=image href='http://{there}/{way}'>",
    "modulepreload": "<link rel=modulepreload href='http://{there}/{way}'>",
    "preconnect": "<link rel=preconnect href='http://{there}'>",
    "dns": "<link rel=dns-prefetch href='http://{there}'>",
    "icon": "<link rel=icon href='http://{there}/{way}'>",
    "sheet": "<link rel=stylesheet href='http://{there}/{way}'>",
    "frame": "<iframe src='http://{there}/{way}'></iframe>",
    "frame in itself": "<iframe srcdoc=\"<meta http-equiv=refresh content='0;url=http://{there}/{way}'>\">"
    "</iframe>",
    "object": "<object data='http://{there}/{way}'></object><embed src='http://{there}/{way}'>",
    "media": "<video src='http://{there}/{way}' poster='http://{there}/{way}' autoplay></video>",
    "drawing": "<svg><image href='http://{there}/{way}'/><use href='http://{there}/{way}#a'/></svg>",
    "ping": "<a id=a href='#' ping='http://{there}/{way}'>x</a><script>a.click()</script>",
    "speculation": "<script type=speculationrules>"
    '{"prefetch": [{"urls": ["http://{there}/{way}"]}]}</script>',
    "fetch": "<script>fetch('http://{there}/{way}'); navigator.sendBeacon('http://{there}/{way}')</script>",
    "socket": "<script>new WebSocket('ws://{there}/{way}'); new EventSource('http://{there}/{way}')</script>",
    "webrtc": RTC,
    "base": "<base href='http://{there}/'><img src='{way}'>",
    "report": "<meta http-equiv=Content-Security-Policy content=\"img-src 'none'; "
    "report-uri http://{there}/{way}\"><img src='data:image/png;base64,eA=='>",
    "handler": "<img src=x onerror=\"location = 'http://{there}/{way}'\">",
    "link of script": "<a id=a href='http://{there}/{way}'>x</a><script>a.click()</script>",
}
NEEDS_MORE = {"preconnect", "dns", "report"}  # a connection without a request, or another address
ALL = "".join(WAYS.values())


def deck() -> str:
    """Return a slide show of the product."""
    return document(layout.pages(DECKS["en"]), title="A deck", language="en")


BOXES = "<p>page</p><script>alert(1); confirm(2); prompt(3)</script>"
# Name -> (content, origin).
STORED = {
    "all sent": (f"<title>all</title>{ALL}", "sent"),
    "all made": (f"<title>all</title>{ALL}", "made"),
    "boxes": (BOXES, "sent"),
    "deck": (deck(), "made"),
    "deck sent": (deck(), "sent"),
    "deck and refresh": (deck().replace("<main>", f"{WAYS['refresh']}<main>"), "made"),
    "deck and scripts": (deck().replace("</html>", WAYS["location"] + WAYS["fetch"] + RTC), "made"),
}
KEEP = """
import json
from pathlib import Path
from core.files import storage
from core.models import User
user = User.objects.get(username="ada")
links = {}
for name, origin in json.loads(Path("{folder}/names.json").read_text()).items():
    content = Path("{folder}", name).read_bytes()
    file = storage.keep(user=user, name="page.html", content=content, origin=origin)
    links[name] = storage.link(file)
print("LINKS", json.dumps(links))
"""


@pytest.fixture(scope="module")
def links(
    stage: Gateway, listener: Listener, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Return the addresses of the stored pages, on a gateway without workers."""
    folder = tmp_path_factory.mktemp("pages")
    for name, (html, _) in STORED.items():
        (folder / name).write_text(listener.fill(html), encoding="utf-8")
    names = {name: origin for name, (_, origin) in STORED.items()}
    (folder / "names.json").write_bytes(orjson.dumps(names))
    said = shell(stage, KEEP.replace("{folder}", str(folder)))
    found: dict[str, str] = orjson.loads(said.rpartition("LINKS ")[2])
    return found


def visited(browser: Browser, address: str, act: Callable[[Page], Any] | None = None) -> Page:
    """Open the page at ``address`` and give it time to act; return it."""
    page = browser.new_context().new_page()
    page.goto(address, wait_until="load")
    page.wait_for_timeout(SETTLE_MILLISECONDS)
    if act is not None:
        act(page)
        page.wait_for_timeout(SETTLE_MILLISECONDS)
    return page


@dataclass
class Server:
    """A server of this machine, as the listener is: browsers let no public page ask those."""

    html: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Listen."""
        mine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = mine.html.encode() if self.path == "/page" else b""
                self.send_response(200)
                for name, value in {"Content-Type": "text/html", **mine.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def every_way(browser: Browser, listener: Listener) -> Iterator[Callable[..., None]]:
    """Return ``every_way(headers)``: it opens a page for each way, with these headers.

    ``until()``: the ways that were not heard are opened again until it is true, at most for a
    bound: a busy browser leaves out what a page only recommends.
    """
    server = Server()

    def show(headers: dict[str, str], until: Callable[[], bool] = lambda: True) -> None:
        listener.forget()
        deadline = time.monotonic() + BOUND_SECONDS
        while True:
            context = browser.new_context()
            for way in [each for each in WAYS if each not in listener.heard()]:
                server.html, server.headers = listener.fill(WAYS[way], way), headers
                page = context.new_page()
                page.goto(f"http://127.0.0.1:{server.server.server_port}/page", wait_until="load")
            page.wait_for_timeout(SETTLE_MILLISECONDS)
            context.close()
            if until() or time.monotonic() > deadline:
                return

    yield show
    server.server.shutdown()
    server.server.server_close()


def headers_at(page: Page, address: str) -> dict[str, str]:
    """Return the headers that the gateway sends with a page."""
    return dict(page.request.get(address).headers)


def test_the_listener_hears_a_page_that_nothing_hinders(
    listener: Listener, every_way: Callable[..., None]
) -> None:
    """Each way leads out of a page without a policy: the tests below would notice."""
    every_way({}, until=lambda: set(WAYS) - listener.heard() <= NEEDS_MORE)
    assert set(WAYS) - listener.heard() <= NEEDS_MORE


@pytest.mark.parametrize("origin", ["sent", "made"])
def test_rf4_a_stored_page_asks_the_outside_for_nothing(
    origin: str, browser: Browser, listener: Listener, links: dict[str, str]
) -> None:
    """[RF4] [RX3] Every way in one file, as the gateway serves it."""
    listener.forget()
    page = visited(browser, links[f"all {origin}"], lambda page: page.keyboard.press("Tab"))
    assert page.url == links[f"all {origin}"]
    page.context.close()
    assert (listener.asked, listener.packets) == ([], [])


def test_rf4_no_way_out_is_left_by_the_headers_of_a_stored_page(
    browser: Browser,
    listener: Listener,
    links: dict[str, str],
    every_way: Callable[..., None],
) -> None:
    """[RF4] [RX3] Each way alone: in one file, the first could hide the others."""
    page = browser.new_context().new_page()
    sent, made = (policies(headers_at(page, links[f"all {each}"])) for each in ("sent", "made"))
    page.context.close()
    assert sent == made
    every_way(sent)
    assert (listener.asked, listener.packets) == ([], [])


def policies(sent: dict[str, str]) -> dict[str, str]:
    """Return the headers that tell a browser what a page may do."""
    names = {"content-security-policy", "referrer-policy", "x-dns-prefetch-control"}
    return {name: value for name, value in sent.items() if name in names}


def test_rf4_a_page_opens_no_box_under_our_address(browser: Browser, links: dict[str, str]) -> None:
    """[RF4] ``alert``, ``confirm``, ``prompt``: they look as if the gateway asked."""
    boxes: list[str] = []

    def noted(box: Dialog) -> None:
        boxes.append(box.message)
        box.dismiss()

    page = browser.new_context().new_page()
    page.on("dialog", noted)
    page.goto(links["boxes"])
    page.wait_for_timeout(SETTLE_MILLISECONDS)
    assert boxes == []
    page.context.close()


def test_a_deck_of_ours_runs_its_script_and_no_other(
    browser: Browser, listener: Listener, links: dict[str, str]
) -> None:
    """[L1] [L4] A deck that was changed, or uploaded, is a page without scripts."""
    listener.forget()
    page = visited(browser, links["deck"])
    assert page.locator(".slide:visible").count() == 1
    page.keyboard.press("ArrowRight")
    assert page.locator("output").inner_text().startswith("2 /")
    page.context.close()
    for name, shown in (("deck sent", 12), ("deck and refresh", 12), ("deck and scripts", 1)):
        page = visited(browser, links[name])
        assert page.locator(".slide:visible").count() == shown, name
        page.context.close()
    assert (listener.asked, listener.packets) == ([], [])


def test_rx3_a_result_page_loads_nothing_also_as_a_file_on_a_disk(
    browser: Browser, listener: Listener, tmp_path: Path
) -> None:
    """[RX3] A document on Telegram has no headers: its own head says what it may load."""
    content = listener.fill(ALL) + f"<img id=own alt=own src='/files/{'A' * 22}'>"
    page = page_of(
        Result("Saved", content, is_html=True),
        picture=lambda address: PIXEL if address.startswith("/files/") else None,
    )
    file = tmp_path / "saved.html"
    file.write_text(page, encoding="utf-8")
    listener.forget()
    shown = visited(browser, file.as_uri())
    loaded = shown.locator("img[alt=own]").evaluate("(image) => image.naturalWidth")
    shown.context.close()
    assert loaded == 1
    assert (listener.asked, listener.packets) == ([], [])


@pytest.mark.parametrize("width", [390, 1000])
def test_words_of_a_wide_table_are_whole_and_the_page_stays_within_its_window(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    head = "|".join(["Quarter", *["Documentation"] * 11])
    table = f"|{head}|\n{'|-' * 12}|\n{'|value' * 12}|"
    file = tmp_path / "saved.html"
    file.write_text(page_of(Result("Saved", table), picture=lambda _: None), encoding="utf-8")
    shown = visited(browser, file.as_uri())
    shown.set_viewport_size({"width": width, "height": 800})
    lines = shown.locator("th").last.evaluate("""(cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return range.getClientRects().length;
    }""")
    across = shown.evaluate("document.documentElement.scrollWidth")
    shown.context.close()
    assert (lines, across) == (1, width)


def test_other_pages_are_not_recognised_as_decks() -> None:
    """The script is known by its hash, in the head, beside no other header of a page's own."""
    ours = deck().encode()
    assert slide_show.is_slide_show(ours)
    assert not slide_show.is_slide_show(ours.replace(b"sha256-", b"sha256-A"))
    assert not slide_show.is_slide_show(b"<!-- " + b" " * 3000 + b"-->" + ours)
    assert not slide_show.is_slide_show(ours + b"<META HTTP-EQUIV=refresh>")
