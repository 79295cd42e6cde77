"""The first run in Chromium: with keys alone, without a script, on a narrow and a dark screen."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from core.providers import questions
from tests import templates
from tests.browser.conftest import Seen, come, hold, link, shell, watch
from tests.conftest import DatabaseMaker
from tests.gateways import Gateway
from tests.journeys import model as models
from tests.journeys.model import Model, Rule

pytestmark = pytest.mark.slow
OpenPage = Callable[..., tuple[Page, Seen]]
EMBEDDED = {
    "LLM_PROVIDER": "openai-compatible",
    "GATEWAY_MODEL_URL": "http://127.0.0.1:9/v1",
    "LLM_IS_EMBEDDED": "1",
    "OLLAMA_HOST": "127.0.0.1:9",
}
OWNER = (
    "from core.models import User; User.objects.create_user('ada', display_name='Ada Lovelace', "
    "is_owner=True, is_staff=True, is_superuser=True)"
)
# The rightmost pixel of what does not scroll by itself.
WIDEST = """() => Math.max(...[...document.querySelectorAll("body *")]
  .filter((node) => !node.closest("pre, .visually-hidden, .skip"))
  .map((node) => node.getBoundingClientRect().right))"""


@pytest.fixture(scope="module")
def server() -> Iterator[Model]:
    """Yield the owner's model server."""
    with models.running() as found:
        found.names = ["small", "large"]
        found.rules = [Rule(re.escape(questions.FOR_TOOL), tool=questions.TOOL)]
        yield found


@pytest.fixture(scope="module")
def new_gateway(
    new_database: DatabaseMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yield a gateway with an embedded model that does not answer, and its owner Ada."""
    folder = tmp_path_factory.mktemp("first-run")
    (folder / "home").mkdir()
    running = Gateway(folder, new_database(), extra=EMBEDDED, roles=("web", "runs"))
    templates.collect_static(running)
    shell(running, OWNER)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def signed_in_state(browser: Browser, new_gateway: Gateway) -> Any:
    """Return the cookies of Ada's browser; her first sign-in leads to the first run."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(link(new_gateway))
    page.get_by_role("button", name="Sign in as Ada Lovelace").click()
    page.wait_for_url("**/first-run/model")
    found = context.storage_state()
    context.close()
    return found


@pytest.fixture
def opened(browser: Browser, new_gateway: Gateway, signed_in_state: Any) -> Iterator[OpenPage]:
    """Return ``opened(path, **context)``: a page of the first run, and what it complained of."""
    contexts: list[BrowserContext] = []

    def go(path: str, **options: Any) -> tuple[Page, Seen]:
        context = browser.new_context(storage_state=signed_in_state, **options)
        contexts.append(context)
        page = context.new_page()
        seen = watch(page)
        page.goto(f"{new_gateway.base_url}/first-run/{path}")
        return page, seen

    yield go
    for context in contexts:
        context.close()


def focused(page: Page) -> str:
    """Return the id or the text of the element that has the focus."""
    found: str = page.evaluate(
        "document.activeElement.id || document.activeElement.textContent.trim()"
    )
    return found


def test_the_first_step_is_done_by_keys_alone(opened: OpenPage, server: Model) -> None:
    page, seen = opened("model")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the step"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")  # the chosen provider
    expect(page.get_by_role("radio", name="OpenAI", exact=True)).to_be_focused()
    page.keyboard.press("ArrowLeft")  # Ollama: none runs here, which is said at once
    wrong = page.locator("[data-error=base_url]")
    expect(wrong).to_contain_text("Nothing answers at 127.0.0.1:11434")
    expect(page.get_by_role("radio", name="Ollama")).to_be_focused()
    page.keyboard.press("ArrowLeft")  # round to the last one
    expect(page.get_by_role("radio", name="Another server")).to_be_focused()
    expect(wrong).to_be_hidden()
    page.keyboard.press("Tab")
    assert focused(page) == "id_base_url"
    page.keyboard.type(server.url)
    page.keyboard.press("Tab")
    expect(wrong).to_contain_text("inside your network")
    expect(page.locator("#id_allow_private")).to_be_focused()
    page.keyboard.press("Space")
    names = page.locator("select[name=model]")
    expect(names).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(names).to_be_focused()
    page.keyboard.type("large")
    page.keyboard.press("Tab")
    assert focused(page) == "Test and use it"
    page.keyboard.press("Enter")
    page.wait_for_url("**/first-run/message")
    expect(page.locator("#try-text")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".answer .prose")).to_contain_text("You said: Hello!")
    expect(page.locator("#announcer")).to_contain_text("You said: Hello!")
    expect(page.get_by_role("button", name="Go on", exact=True)).to_be_visible()
    assert seen.problems == []


def test_an_error_is_announced_at_its_field_and_has_the_focus(
    opened: OpenPage, server: Model
) -> None:
    page, _ = opened("model")
    page.get_by_text("Another server").click()
    page.get_by_label("Address of the server").fill(server.url)
    page.get_by_label("inside my network").check()
    names = page.locator("select[name=model]")
    names.select_option(label="Another name…")
    box = page.get_by_role("combobox", name="Model")
    expect(box).to_be_focused()
    box.fill("largest")
    page.get_by_role("button", name="Test and use it").click()
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(box).to_be_focused()
    expect(box).to_have_accessible_description(re.compile("knows no model of this name"))
    expect(page.get_by_role("button", name="Test and use it")).to_be_enabled()


def test_a_name_that_is_being_typed_stays_when_the_list_of_models_comes(
    opened: OpenPage, server: Model
) -> None:
    page, _ = opened("model")
    page.get_by_text("Another server").click()
    page.get_by_label("Address of the server").fill(server.url)
    held = hold(page, "**/first-run/model")
    page.get_by_label("inside my network").check()
    box = page.get_by_role("combobox", name="Model")
    box.press_sequentially("lar")
    come(page, held)
    for route in held:
        route.continue_()
    expect(page.locator("[data-list-state]")).to_have_text("2 models.")
    expect(box).to_be_focused()
    page.keyboard.type("ge")
    expect(box).to_have_value("large")


def test_an_error_that_comes_under_a_pressed_pointer_takes_no_click_away(
    opened: OpenPage, server: Model
) -> None:
    """Leaving the address asks for the models; the error for it moves the box that is pressed."""
    page, _ = opened("model")
    page.get_by_text("Another server").click()
    page.get_by_label("Address of the server").fill(server.url)
    box = page.get_by_label("inside my network")
    place = box.bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    with page.expect_response(lambda response: response.request.method == "POST") as answered:
        page.mouse.down()
    answered.value.finished()
    page.mouse.up()
    expect(box).to_be_checked()


def test_a_failed_first_message_leads_back_to_the_model(
    opened: OpenPage, server: Model, new_gateway: Gateway
) -> None:
    page, seen = opened("model")
    page.get_by_text("Another server").click()
    page.get_by_label("Address of the server").fill(server.url)
    page.get_by_label("inside my network").check()
    page.locator("select[name=model]").select_option("small")
    page.get_by_role("button", name="Test and use it").click()
    expect(page.get_by_role("heading", name="Choose a model")).to_have_count(0)
    page.goto(f"{new_gateway.base_url}/first-run/message")
    server.rules.insert(0, Rule("^break", text="no such model", status=404))
    page.locator("#try-text").fill("break")
    composed = {"key": "Enter", "keyCode": 229, "cancelable": True}  # the end of a word in Safari
    page.locator("#try-text").dispatch_event("keydown", composed)
    expect(page.locator("#try-text")).to_have_value("break")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("link", name="Choose it again")).to_be_visible()
    expect(page.locator(".error-block")).to_be_visible()
    assert seen.problems == []


# The first connection is refused, as while the gateway starts anew.
REFUSED_ONCE = """(() => {
  const Real = WebSocket;
  window.WebSocket = function (address) {
    window.WebSocket = Real;
    const refused = { readyState: 3, close() {} };
    setTimeout(() => refused.onclose({ code: 1006 }));
    return refused;
  };
})();"""


def test_a_connection_that_comes_later_leaves_no_words_that_it_was_refused(
    opened: OpenPage, new_gateway: Gateway
) -> None:
    page, _ = opened("phone")
    page.add_init_script(REFUSED_ONCE)
    with page.expect_websocket():
        page.goto(f"{new_gateway.base_url}/first-run/message")
    expect(page.locator("[data-try-error]")).to_be_hidden(timeout=10_000)


def test_all_steps_work_without_a_script(
    opened: OpenPage, server: Model, new_gateway: Gateway
) -> None:
    page, _ = opened("model", java_script_enabled=False)
    page.get_by_text("Another server").click()
    page.get_by_role("button", name="Test and use it").click()
    expect(page.locator("[data-error=base_url]")).to_contain_text("An address is needed")
    page.get_by_label("Address of the server").fill(server.url)
    page.get_by_label("inside my network").check()
    page.get_by_role("button", name="Show models").click()
    expect(page.locator("#model-names option")).to_have_count(2)
    page.locator("#id_model").fill("small")
    page.get_by_role("button", name="Test and use it").click()
    expect(page.get_by_role("heading", name="Choose a model")).to_have_count(0)
    page.goto(f"{new_gateway.base_url}/first-run/message")
    expect(page.get_by_role("heading", name="Say hello")).to_be_visible()
    page.get_by_role("button", name="Skip").click()
    page.goto(f"{new_gateway.base_url}/first-run/phone")
    page.get_by_label("Bot token").fill("123:short")
    page.get_by_role("button", name="Test and connect").click()
    expect(page.locator("[data-error=token]")).to_contain_text("does not have the form")
    page.get_by_role("button", name="Skip").click()
    expect(page.get_by_role("link", name="Open the chat")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 768])
def test_no_step_is_cut_off(opened: OpenPage, width: int, scheme: str) -> None:
    for name in ("model", "message", "phone", ""):
        viewport = {"width": width, "height": 640}
        page, seen = opened(name, viewport=viewport, color_scheme=scheme)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate(WIDEST) <= width + 0.5, name
        assert seen.problems == []
        page.context.close()


def test_the_note_about_the_demo_model_leads_here(opened: OpenPage, new_gateway: Gateway) -> None:
    shell(
        new_gateway,
        "from core.models import AssistantModel, LanguageModel as M; "
        "AssistantModel.objects.all().delete(); from core.models import Assistant; "
        "AssistantModel.objects.create(assistant=Assistant.objects.get(), "
        "model=M.objects.get(provider__from_environment=True))",
    )
    page, seen = opened("model")
    page.goto(new_gateway.base_url)
    note = page.locator("#demo-model")
    note.locator("summary").click()
    note.get_by_role("link", name="Choose a model").click()
    expect(page.get_by_role("heading", name="Choose a model")).to_be_visible()
    assert seen.problems == []


BOT = "from core.models import ChannelAccount as A; A.objects.{}(channel='telegram', name='my_bot')"


def test_a_code_that_another_window_ended_is_not_shown_any_more(
    opened: OpenPage, new_gateway: Gateway
) -> None:
    """The step is opened again, on the phone perhaps: the first window says what became of its
    code.
    """
    shell(new_gateway, BOT.format("create"))
    first, _ = opened("phone")
    code = first.locator("[data-code]")
    expect(code).to_contain_text("/link ")
    second, seen = opened("phone")
    expect(first.get_by_text("This code no longer works")).to_be_visible()
    expect(code).to_be_hidden()
    expect(second.locator("[data-code]")).to_contain_text("/link ")
    first.get_by_role("button", name="Make a new one").click()
    expect(code).to_be_visible()
    expect(second.get_by_text("This code no longer works")).to_be_visible()
    assert seen.problems == []
    shell(new_gateway, BOT.format("filter") + ".delete()")
