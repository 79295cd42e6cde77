"""The web chat as an app, and its notifications, in a real browser: W55, W56, W57, W64."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    Page,
    WebSocketRoute,
    expect,
)

from tests.browser.conftest import Seen, ask, come, finished, link, shell, sign_in
from tests.browser.icons import BADGE, ICONS, drawn, path_of
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
OpenPage = Callable[..., tuple[Page, Seen]]
OFFLINE = "You are offline; what you write is sent when you are connected again."
# The platform: a push service cannot be reached from a test. The page's code is its own.
FAKE_PUSH = """
const own = { current: null };
const key = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_")
  .replaceAll("=", "");
PushManager.prototype.getSubscription = async () => own.current;
PushManager.prototype.subscribe = async ({ applicationServerKey, userVisibleOnly }) => {
  if (!userVisibleOnly || applicationServerKey.length !== 65) throw new Error("wrong options");
  const curve = { name: "ECDH", namedCurve: "P-256" };
  const pair = await crypto.subtle.generateKey(curve, true, ["deriveBits"]);
  const point = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const endpoint = `https://push.example/send/${key(crypto.getRandomValues(new Uint8Array(9)))}`;
  own.current = {
    endpoint,
    options: { applicationServerKey: applicationServerKey.buffer },
    toJSON: () => ({ endpoint, keys: { p256dh: key(point), auth: "AAAAAAAAAAAAAAAAAAAAAA" } }),
    unsubscribe: async () => { own.current = null; return true; },
  };
  return own.current;
};
"""


def controlled(page: Page) -> None:
    """Wait until the service worker controls the page, and the browser is this person's."""
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    page.wait_for_function("navigator.serviceWorker.controller !== null")
    page.wait_for_function(
        "localStorage.getItem('latchkey.person') === document.body.dataset.person"
    )


def kept(page: Page) -> list[str]:
    """Return the paths in the caches of this browser."""
    script = """async () => {
      const found = [];
      for (const name of await caches.keys()) {
        const kept = await (await caches.open(name)).keys();
        found.push(...kept.map(({ url }) => new URL(url).pathname));
      }
      return found;
    }"""
    found: list[str] = page.evaluate(script)
    return found


def test_w55_the_browser_finds_no_error_in_the_manifest_and_can_install(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    controlled(page)
    session = page.context.new_cdp_session(page)
    found = session.send("Page.getAppManifest")
    assert found["url"].endswith("/manifest.webmanifest")
    assert found["errors"] == []
    assert json.loads(found["data"])["name"] == "Latchkey"
    assert session.send("Page.getInstallabilityErrors")["installabilityErrors"] in ([], incognito())
    assert seen.problems == []


def incognito() -> list[dict[str, Any]]:
    """Return the one reason that is the test's own: its contexts are private windows."""
    return [{"errorId": "in-incognito", "errorArguments": []}]


def test_w55_the_icons_are_drawn_from_the_mark(browser: Browser) -> None:
    for name, pixels, part in (*ICONS, (*BADGE, None)):
        assert drawn(browser, name, pixels, part) == path_of(name, pixels).read_bytes(), name


def test_w55_the_settings_offer_to_install_when_the_browser_does(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    page.locator("[data-open-settings]").click()
    expect(page.locator("#install-row")).to_be_hidden()
    page.evaluate("""() => {
      const event = new Event("beforeinstallprompt", { cancelable: true });
      event.prompt = async () => { document.title = "asked"; return { outcome: "accepted" }; };
      dispatchEvent(event);
    }""")
    page.get_by_role("button", name="Install").click()
    expect(page).to_have_title("asked")
    expect(page.locator("#install-row")).to_be_hidden()


SAFARI = "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.6 Safari/604.1"
FINGERS = "Object.defineProperty(Navigator.prototype, 'maxTouchPoints', {{ get: () => {} }});"


@pytest.mark.parametrize(
    ("system", "fingers", "is_told"),
    [
        ("iPhone; CPU iPhone OS 17_6 like Mac OS X", 5, True),
        ("Macintosh; Intel Mac OS X 10_15_7", 5, True),  # an iPad
        ("Macintosh; Intel Mac OS X 10_15_7", 0, False),
    ],
)
def test_w55_where_the_browser_has_no_prompt_the_settings_say_how_to_install(
    open_page: OpenPage, gateway: Gateway, system: str, fingers: int, is_told: bool
) -> None:
    page, _ = open_page(gateway, user_agent=f"Mozilla/5.0 ({system}) {SAFARI}")
    page.add_init_script(FINGERS.format(fingers))
    page.reload()
    page.locator("[data-open-settings]").click()
    expect(page.locator("#usage table")).to_be_visible()
    expect(page.locator("#install-row")).to_be_visible(visible=is_told)
    if is_told:
        expect(page.locator("#install-row")).to_contain_text("Add to Home Screen")


def test_w56_without_a_connection_the_chat_opens_and_sends_later(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    controlled(page)
    ask(page, "markdown, please")
    finished(page)
    address = page.url
    box = page.get_by_label("Message", exact=True)
    box.fill("A draft that stays")
    page.context.set_offline(True)
    page.reload()
    expect(page.locator("#offline-note")).to_have_text(OFFLINE)
    expect(box).to_have_value("A draft that stays")
    expect(page.locator(".toast")).to_have_count(0)
    box.press("Enter")
    expect(page.locator(".status-words")).to_have_text("Waiting for the connection…")
    box.fill("And another draft")
    page.reload()
    expect(page.locator(".said")).to_have_count(1)
    expect(box).to_have_value("And another draft")
    page.context.set_offline(False)
    finished(page, 2)
    expect(page.locator("#offline-note")).to_have_count(0)
    expect(box).to_have_value("And another draft")
    assert page.url == address
    page.reload()
    finished(page, 2)
    expect(page.locator(".said")).to_contain_text(["markdown, please", "A draft that stays"])


def test_w56_a_page_whose_network_goes_off_says_so_within_seconds(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """Its socket is still open then: nothing ends a connection that has nothing to carry."""
    page, _ = open_page(gateway)
    line = page.locator("#connection")
    expect(line).to_be_hidden()
    page.context.set_offline(True)
    expect(line).to_have_text("No connection. Trying again…", timeout=5_000)
    page.context.set_offline(False)
    expect(line).to_be_hidden()


def test_w56_messages_written_without_a_connection_go_out_once_also_into_a_chat_that_was_left(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """The gateway limits messages: those that are sent again would take the place of others."""
    page, _ = open_page(gateway)
    ask(page, "markdown of the gulls")
    finished(page)
    there = page.locator(".sessions a", has_text="markdown of the gulls")
    expect(there).to_be_visible()
    sent: list[str] = []

    def note(frame: str | bytes) -> None:
        said = json.loads(frame)
        if said["type"] == "message":
            sent.append(said["text"])

    page.on("websocket", lambda socket: socket.on("framesent", note))
    page.context.set_offline(True)
    expect(page.locator("#connection")).to_be_visible()
    for text in ("Here one", "Here two", "Here three"):
        ask(page, text)
    page.locator("#new-chat").click()
    for text in ("There one", "There two"):
        ask(page, text)
    there.click()
    page.context.set_offline(False)
    page.locator(".sessions a", has_text="There one").click()
    finished(page, 2)
    assert sorted(sent) == ["Here one", "Here three", "Here two", "There one", "There two"]


def test_w56_a_message_that_may_have_arrived_does_not_come_back_into_the_box(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """It would be sent twice; its answer is stopped with the next connection."""
    page, _ = open_page(gateway)
    controlled(page)
    lost: list[str | bytes] = []

    def talk(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(data: str | bytes) -> None:
            if json.loads(data)["type"] == "accepted" and not lost:
                lost.append(data)
            else:
                socket.send(data)

        server.on_message(pass_on)

    page.route_web_socket("**/ws*", talk)
    page.reload()
    ask(page, "hang on")
    come(page, lost)
    page.context.set_offline(True)
    page.reload()
    expect(page.locator("#offline-note")).to_have_text(OFFLINE)
    page.keyboard.press("Escape")
    expect(page.locator(".status-words")).to_have_text("Stopping…")
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    page.context.set_offline(False)
    finished(page)
    expect(page.locator(".stopped")).to_be_visible()
    expect(page.locator(".said")).to_have_count(1)


def test_w56_while_a_proxy_has_no_gateway_behind_it_the_chat_opens_too(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """The window of an installed app has no button to load a page again."""
    page, _ = open_page(gateway)
    controlled(page)
    page.context.service_workers[0].evaluate("""() => {
      const answered = self.fetch;
      self.fetch = async (request) => {
        self.fetch = answered;
        return new Response("Bad gateway", { status: 502 });
      };
    }""")
    page.reload()
    expect(page.locator("#greeting")).to_contain_text("Ada")
    expect(page.locator("#offline-note")).to_have_count(0)


# The service worker hears of pages: nothing, an answer after a while, or a proxy's word; and
# the gateway again.
STALLED = "() => { self.fetch = () => new Promise(() => {}); }"
SLOW = """() => {
  const answered = self.fetch;
  self.fetch = async (request) => {
    await new Promise((then) => setTimeout(then, 3500));
    return answered(request);
  };
}"""
BAD_GATEWAY = """() => {
  self.answered = self.fetch;
  self.fetch = async () => new Response("Bad gateway", { status: 502 });
}"""
ANSWERED = "() => { self.fetch = self.answered; }"


def loads_of(page: Page) -> list[str]:
    """Return the addresses of the pages that are loaded from now on, as they come."""
    loads: list[str] = []
    page.on("domcontentloaded", lambda loaded: loads.append(loaded.url))
    return loads


def come_home(page: Page, gateway: Gateway, *, timeout: float | None = None) -> None:
    """Open the chat as an installed app does: the shell that comes may load the page at once, which
    would interrupt a wait for all of it.
    """
    page.goto(gateway.base_url + "/?from=home", wait_until="commit", timeout=timeout)


def test_w56_on_a_network_that_answers_nothing_the_chat_opens_within_seconds(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """As behind a captive portal: the window of an installed app would stay white."""
    page, _ = open_page(gateway)
    controlled(page)
    page.context.service_workers[0].evaluate(STALLED)
    page.context.set_offline(True)
    come_home(page, gateway, timeout=20_000)
    expect(page.locator("#offline-note")).to_have_text(OFFLINE)


def test_w56_a_page_that_takes_long_comes_after_the_shell(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    controlled(page)
    loads = loads_of(page)
    page.context.service_workers[0].evaluate(SLOW)
    come_home(page, gateway)
    expect(page.locator("#greeting")).to_contain_text("Ada")
    expect(page.locator("body")).not_to_have_attribute("data-offline", "1")
    assert len(loads) == 2


def test_w56_attached_files_do_not_keep_the_page_from_coming_after_the_shell(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    controlled(page)
    page.locator("#attach-file").set_input_files(
        {"name": "sea.md", "mimeType": "text/markdown", "buffer": b"# Sea"}
    )
    expect(page.locator("#send")).to_be_enabled()
    loads = loads_of(page)
    page.context.service_workers[0].evaluate(SLOW)
    come_home(page, gateway)
    expect(page.locator("body")).not_to_have_attribute("data-offline", "1")
    expect(page.locator("#attachments li")).to_contain_text("sea.md")
    assert len(loads) == 2


def test_w56_where_a_proxy_answers_pages_itself_and_lets_sockets_through_the_chat_goes_on(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    controlled(page)
    worker = page.context.service_workers[0]
    worker.evaluate(BAD_GATEWAY)
    pages = re.compile(rf"^{re.escape(gateway.base_url)}/(c/[\w-]+)?$")
    page.route(pages, lambda route: route.fulfill(status=502))
    loads = loads_of(page)
    come_home(page, gateway)
    ask(page, "markdown, please")
    finished(page)
    assert len(loads) == 1
    worker.evaluate(ANSWERED)
    page.unroute(pages)
    expect(page.locator("body")).not_to_have_attribute("data-offline", "1")
    finished(page)
    assert len(loads) == 2


def become_bob(page: Page, browser: Browser, gateway: Gateway) -> None:
    """Give this browser the cookies of Bob, without signing Ada out."""
    shell(
        gateway,
        "from core.models import User; User.objects.filter(username='bob').exists() or "
        "User.objects.create_user('bob', password='correct horse', display_name='Bob Byte')",
    )
    context = browser.new_context()
    sign_in(context.new_page(), link(gateway, "bob"), "Bob Byte")
    page.context.clear_cookies()
    page.context.add_cookies(context.cookies())  # type: ignore[arg-type]  # what it gave
    context.close()


def test_w56_the_shell_of_one_person_waits_for_the_page_of_the_next(
    open_page: OpenPage, browser: Browser, gateway: Gateway
) -> None:
    """A proxy has no page meanwhile: the shell would come again at once."""
    page, _ = open_page(gateway)
    controlled(page)
    worker = page.context.service_workers[0]
    worker.evaluate(BAD_GATEWAY)
    page.route(gateway.base_url + "/", lambda route: route.fulfill(status=502))
    become_bob(page, browser, gateway)
    loads = loads_of(page)
    with page.expect_response(gateway.base_url + "/"):
        page.goto(gateway.base_url + "/?from=home")
    assert len(loads) == 1
    worker.evaluate(ANSWERED)
    page.unroute(gateway.base_url + "/")
    expect(page.locator("#greeting")).to_contain_text("Bob")
    assert len(loads) == 2


def test_w56_a_message_of_one_person_is_not_sent_as_the_next(
    open_page: OpenPage, browser: Browser, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    controlled(page)
    page.context.set_offline(True)
    page.reload()
    expect(page.locator("#offline-note")).to_have_text(OFFLINE)
    ask(page, "Only Ada may say this")
    expect(page.locator(".status-words")).to_have_text("Waiting for the connection…")
    become_bob(page, browser, gateway)
    page.context.set_offline(False)
    expect(page.locator("#greeting")).to_contain_text("Bob")
    expect(page.locator(".said")).to_have_count(0)
    said = "print(Run.objects.filter(user__username='bob').count())"
    assert shell(gateway, f"from core.models import Run; {said}") == "0"


def test_w56_only_the_shell_and_static_files_are_kept_and_signing_out_forgets_them(
    browser: Browser, gateway: Gateway
) -> None:
    context = browser.new_context()
    page = context.new_page()
    sign_in(page, link(gateway), "Ada Lovelace")
    controlled(page)
    ask(page, "markdown, please")
    finished(page)
    page.goto(gateway.base_url + "/reminders")
    page.goto(gateway.base_url + "/admin/")
    page.goto(gateway.base_url + "/")
    found = kept(page)
    assert "/offline" in found
    assert all(path == "/offline" or path.startswith("/static/latchkey/") for path in found)
    page.locator("[data-open-settings]").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in*")
    assert kept(page) == []
    assert page.evaluate("localStorage.getItem('latchkey.person')") is None
    context.close()


def test_w56_a_new_version_takes_over_and_the_old_one_is_removed(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    controlled(page)
    before = page.evaluate("caches.keys()")
    page.context.route(
        "**/sw.js",
        lambda route: route.fulfill(
            response=(got := route.fetch()),
            body=got.text().replace('"version": "', '"version": "new-'),
        ),
    )
    page.evaluate("caches.open('latchkey-shell-older').then(() => true)")
    page.reload()
    page.wait_for_function(
        "caches.keys().then((names) => names.length === 1 && names[0].includes('new-'))"
    )
    assert page.evaluate("caches.keys()") != before
    page.context.set_offline(True)
    page.reload()
    expect(page.locator("#offline-note")).to_have_text(OFFLINE)


SHARE = """async (files) => {
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: "/share", enctype: "multipart/form-data" });
  for (const [name, value] of [["title", "The sky"], ["text", "Why is it blue?"],
                               ["url", "https://example.com/sky"]]) {
    const input = document.createElement("input");
    Object.assign(input, { name, value, type: "hidden" });
    form.append(input);
  }
  const input = document.createElement("input");
  Object.assign(input, { name: "files", type: "file" });
  const data = new DataTransfer();
  data.items.add(new File(["Blue is short."], "notes.txt", { type: "text/plain" }));
  input.files = data.files;
  form.append(input);
  document.body.append(form);
  form.submit();
}"""


def test_w57_content_of_another_app_becomes_a_draft_and_is_not_sent(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    controlled(page)
    page.get_by_label("Message", exact=True).fill("First:")
    page.evaluate(SHARE)
    box = page.get_by_label("Message", exact=True)
    expect(box).to_have_value("First:\nThe sky\nWhy is it blue?\nhttps://example.com/sky")
    expect(page.locator("#attachments .file-name")).to_have_text("notes.txt")
    expect(page.locator("#send")).to_be_enabled()
    assert page.url == gateway.base_url + "/"
    expect(page.locator(".said")).to_have_count(0)
    assert not [path for path in kept(page) if path.startswith("/shared")]
    assert seen.problems == []
    page.goto(gateway.base_url + "/?shared=lost")
    expect(page.locator(".toast")).to_contain_text("did not arrive")
    page.route("http://other.test/", lambda route: route.fulfill(body="<p>A page</p>"))
    page.goto("http://other.test/")
    page.evaluate(SHARE.replace('"/share"', f'"{gateway.base_url}/share"'))
    expect(box).to_have_value("First:\nThe sky\nWhy is it blue?\nhttps://example.com/sky")
    assert page.url == gateway.base_url + "/"


@pytest.fixture
def notified(
    browser: Browser, signed_in: Callable[[Gateway], Any], gateway: Gateway
) -> Iterator[Page]:
    """Yield a page that may show notifications."""
    context = browser.new_context(storage_state=signed_in(gateway), permissions=["notifications"])
    context.add_init_script(FAKE_PUSH)
    page = context.new_page()
    page.goto(gateway.base_url + "/")
    controlled(page)
    yield page
    context.close()


def browsers(gateway: Gateway) -> str:
    return shell(
        gateway,
        "from core.models import PushSubscription as P; "
        "print(*P.objects.values_list('user__username', 'browser'))",
    )


def test_w59_notifications_are_enabled_by_a_tap_and_disabled_by_another(
    notified: Page, gateway: Gateway
) -> None:
    page = notified
    page.locator("[data-open-settings]").click()
    switch = page.get_by_role("switch", name="Notifications on this device")
    expect(switch).not_to_be_checked()
    with page.expect_response("**/chat/push/subscriptions") as answer:
        switch.check()
    assert answer.value.status == 200
    expect(switch).to_be_enabled()
    assert browsers(gateway) == "('ada', 'Chrome on Linux')"
    hide = page.get_by_role("switch", name="Hide the text of notifications")
    with page.expect_response("**/chat/push/settings"):
        hide.check()
    with page.expect_response("**/chat/push/remove"):
        switch.uncheck()
    expect(hide).to_be_hidden()
    assert browsers(gateway) == ""


def test_w59_notifications_that_a_reload_would_not_know_of_are_not_enabled(
    notified: Page, gateway: Gateway
) -> None:
    """With a full or forbidden storage of the browser."""
    page = notified
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full') } }")
    page.locator("[data-open-settings]").click()
    switch = page.get_by_role("switch", name="Notifications on this device")
    switch.click()
    expect(page.locator(".toast")).to_have_count(1)
    expect(switch).not_to_be_checked()
    assert browsers(gateway) == ""


def test_w59_where_no_service_worker_may_be_registered_the_settings_say_so(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """As behind a certificate that the browser does not trust."""
    page, _ = open_page(gateway, "/reminders", permissions=["notifications"])
    page.add_init_script(
        "ServiceWorkerContainer.prototype.register = () => Promise.reject(new Error('no'))"
    )
    page.goto(gateway.base_url)
    page.locator("[data-open-settings]").click()
    switch = page.get_by_role("switch", name="Notifications on this device")
    switch.click()
    expect(page.locator(".toast")).to_contain_text("could not enable notifications")
    expect(switch).to_be_enabled()
    expect(switch).not_to_be_checked()


def test_w78_the_settings_list_the_browsers_and_a_removed_one_stays_off(
    notified: Page, browser: Browser, gateway: Gateway
) -> None:
    context = browser.new_context(permissions=["notifications"])
    context.add_init_script(FAKE_PUSH)
    other = context.new_page()
    sign_in(other, link(gateway), "Ada Lovelace")
    controlled(other)
    name = "Notifications on this device"
    for page in (notified, other):
        page.locator("[data-open-settings]").click()
        with page.expect_response("**/chat/push/subscriptions"):
            page.get_by_role("switch", name=name).check()
    rows = other.locator("#push-browsers .row")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("This browser")
    with other.expect_response("**/chat/push/remove"):
        rows.last.get_by_role("button", name="Remove Chrome on Linux").click()
    expect(rows).to_have_count(1)
    with notified.expect_response("**/chat/push/subscriptions"):
        notified.reload()
    notified.locator("[data-open-settings]").click()
    expect(notified.get_by_role("switch", name=name)).not_to_be_checked()
    expect(notified.locator("#push-browsers .row")).to_have_count(1)
    rows.first.get_by_role("button").click()
    expect(other.locator("#push-browsers")).to_have_count(0)
    expect(other.get_by_role("switch", name=name)).not_to_be_checked()
    assert browsers(gateway) == ""
    context.close()


RENEWED = """async (endpoint) => {
  const key = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-")
    .replaceAll("/", "_").replaceAll("=", "");
  const curve = { name: "ECDH", namedCurve: "P-256" };
  const pair = await crypto.subtle.generateKey(curve, true, ["deriveBits"]);
  const point = key(new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey)));
  PushManager.prototype.getSubscription = async () => null;
  PushManager.prototype.subscribe = async ({ applicationServerKey, userVisibleOnly }) => {
    if (!userVisibleOnly || applicationServerKey.length !== 87) throw new Error("wrong options");
    const keys = { p256dh: point, auth: "AAAAAAAAAAAAAAAAAAAAAA" };
    return { toJSON: () => ({ endpoint, keys }) };
  };
  try {
    self.dispatchEvent(new ExtendableEvent("pushsubscriptionchange"));
  } catch {}
}"""


def test_w78_the_service_worker_renews_an_address_that_has_changed(
    notified: Page, gateway: Gateway
) -> None:
    page = notified
    page.locator("[data-open-settings]").click()
    with page.expect_response("**/chat/push/subscriptions"):
        page.get_by_role("switch", name="Notifications on this device").check()
    new = "https://push.example/send/renewed"
    page.context.service_workers[0].evaluate(RENEWED, new)
    asked = (
        "from core.models import PushSubscription as P; print(*P.objects.values_list('endpoint'))"
    )
    wait_until(lambda: shell(gateway, asked) == f"('{new}',)", seconds=60, what="the new address")
    shell(gateway, "from core.models import PushSubscription as P; P.objects.all().delete()")


# Chromium forgets a notification when it is asked for all while it shows that one.
SHOWING = """() => {
  const { prototype } = ServiceWorkerRegistration;
  const show = prototype.showNotification;
  self.isShown = new Promise((done) => {
    prototype.showNotification = async function (...given) {
      prototype.showNotification = show;
      await show.apply(this, given);
      done(true);
    };
  });
}"""


def delivered(page: Page, gateway: Gateway, **said: Any) -> None:
    """Let the service worker get a push, as the browser's push service would, and show it."""
    worker = page.context.service_workers[0]
    worker.evaluate(SHOWING)
    session = page.context.new_cdp_session(page)
    ids: list[str] = []
    session.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda event: ids.extend(each["registrationId"] for each in event["registrations"]),
    )
    session.send("ServiceWorker.enable")
    while not ids:
        page.evaluate("1")  # lets the events of the session come
    session.send(
        "ServiceWorker.deliverPushMessage",
        {"origin": gateway.base_url, "registrationId": ids[-1], "data": json.dumps(said)},
    )
    session.detach()
    assert worker.evaluate("self.isShown")


SHOWN = """navigator.serviceWorker.ready.then((ready) => ready.getNotifications()).then((all) =>
  all.map(({ title, body, tag, actions, icon }) => ({ title, body, tag, actions, icon })))"""
COUNT = """(count) => navigator.serviceWorker.ready.then((ready) => ready.getNotifications())
  .then((all) => all.length === count)"""


def shown(page: Page, count: int) -> list[dict[str, Any]]:
    """Return the notifications, once there are ``count``."""
    page.wait_for_function(COUNT, arg=count)
    found: list[dict[str, Any]] = page.evaluate(SHOWN)
    return found


ALLOW = {"title": "Allow", "url": "/decide/t?choice=approve"}
DENY = {"title": "Deny", "url": "/decide/t?choice=deny"}
SAID = {"tag": "request:1", "title": "Unknown", "body": "They say", "url": "/admin/x", "at": 1}


def test_w64_a_push_shows_one_notification_for_a_tag_with_its_buttons(
    notified: Page, gateway: Gateway
) -> None:
    page = notified
    delivered(page, gateway, **SAID, actions=[ALLOW, DENY])
    (first,) = shown(page, 1)
    assert (first["title"], first["body"], first["tag"]) == ("Unknown", "They say", "request:1")
    assert [each["title"] for each in first["actions"]] == ["Allow", "Deny"]
    assert first["icon"].endswith(".png")
    delivered(page, gateway, **{**SAID, "tag": "request:2"}, actions=[])
    shown(page, 2)
    delivered(page, gateway, **{**SAID, "body": "They say more"}, actions=[])
    page.wait_for_function(SHOWN + ".then((all) => all.some((n) => n.body === 'They say more'))")
    assert {each["body"] for each in shown(page, 2)} == {"They say", "They say more"}


# A test cannot tap: it dispatches the event, and notes what only a tap may do.
TAP = """async ({ tag, action }) => {
  self.done = [];
  WindowClient.prototype.focus = async function () { self.done.push(`focus ${this.url}`); };
  Clients.prototype.openWindow = async (url) => { self.done.push(`open ${url}`); };
  const [notification] = await registration.getNotifications({ tag });
  try {
    self.dispatchEvent(new NotificationEvent("notificationclick", { notification, action }));
  } catch {}
  while (self.done.length === 0) await new Promise((then) => setTimeout(then, 10));
  return self.done;
}"""


def test_w64_a_tap_opens_the_chat_in_the_open_page_and_a_button_the_page_of_the_decision(
    notified: Page, gateway: Gateway
) -> None:
    page = notified
    base = gateway.base_url
    ask(page, "markdown, please")
    finished(page)
    path = page.url.removeprefix(base)
    page.locator("#new-chat").click()
    expect(page.locator(".said")).to_have_count(0)
    worker = page.context.service_workers[0]
    answer = {"tag": "answer:1", "title": "Latchkey", "body": "Title", "url": path, "at": 1}
    delivered(page, gateway, **answer, actions=[])
    delivered(page, gateway, **SAID, actions=[ALLOW, DENY])
    shown(page, 2)
    assert worker.evaluate(TAP, {"tag": "answer:1", "action": ""}) == [f"focus {base}/"]
    expect(page.locator(".said")).to_contain_text("markdown, please")
    assert page.url == base + path
    tapped = worker.evaluate(TAP, {"tag": "request:1", "action": "1"})
    assert tapped == [f"open {base}/decide/t?choice=deny"]
    delivered(page, gateway, **SAID, actions=[])
    shown(page, 1)
    assert worker.evaluate(TAP, {"tag": "request:1", "action": ""}) == [f"open {base}/admin/x"]
    shown(page, 0)


def test_w64_looking_at_the_page_takes_its_notifications_away(
    notified: Page, gateway: Gateway
) -> None:
    page = notified
    answer = {"tag": "answer:1", "title": "Latchkey", "body": "Title", "url": "/", "at": 1}
    delivered(page, gateway, **answer, actions=[])
    shown(page, 1)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    shown(page, 0)


def test_w64_the_next_person_finds_no_notification_and_nothing_shared(
    notified: Page, browser: Browser, gateway: Gateway
) -> None:
    page = notified
    delivered(page, gateway, **SAID, actions=[ALLOW, DENY])
    shown(page, 1)
    page.evaluate("""caches.open("latchkey-shared").then((cache) => cache.put("/shared/text",
      Response.json({ text: "Of Ada", files: [], at: Date.now() })))""")
    become_bob(page, browser, gateway)
    page.goto(gateway.base_url + "/?shared=here")
    expect(page.locator("#greeting")).to_contain_text("Bob")
    shown(page, 0)
    expect(page.locator(".toast")).to_contain_text("did not arrive")
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    assert "/shared/text" not in kept(page)


def test_w56_the_address_of_the_shell_leads_to_the_chat(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway, "/offline")
    page.wait_for_url(gateway.base_url + "/")
    expect(page.locator("#greeting")).to_contain_text("Ada")
