"""The picker of the web chat: choosing an assistant and a model, by mouse, finger and keys."""

import json
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import (
    Seen,
    ask,
    come,
    finished,
    hold,
    link,
    photograph,
    shell,
    sign_in,
    watch,
)
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
OpenPage = Callable[..., tuple[Page, Seen]]
PageOf = Callable[[str, str], tuple[Page, Seen]]

# The rightmost pixel of the elements that do not scroll by themselves.
WIDEST = """() => Math.max(...[...document.querySelectorAll("body *")]
  .filter((node) => !node.closest("pre, .visually-hidden, dialog, .sidebar, .picker-name"))
  .map((node) => node.getBoundingClientRect().right))"""
SMALLEST = """() => Math.min(...[...document.querySelectorAll("#picker button")]
  .map((node) => node.getBoundingClientRect()).flatMap((box) => [box.width, box.height]))"""
SETUP = """
import base64, io
from PIL import Image, ImageDraw
from core.models import Assistant, AssistantModel, LanguageModel, ModelProvider, User
from core.providers import catalogue
catalogue.current()
def picture(sky, ground):
    image = Image.new('RGB', (96, 96), sky)
    ImageDraw.Draw(image).ellipse((16, 40, 80, 120), fill=ground)
    out = io.BytesIO()
    image.save(out, 'PNG')
    return 'data:image/png;base64,' + base64.b64encode(out.getvalue()).decode()
def make(name, slug, offered='nobody', **fields):
    row = Assistant.objects.create(name=name, slug=slug, offered=offered, **fields)
    AssistantModel.objects.create(assistant=row, model=own)
    return row
own = LanguageModel.objects.get()
provider = ModelProvider.objects.create(name='Big', kind='openai-compatible')
LanguageModel.objects.create(provider=provider, name='big-7b', label='Big model')
bob = User.objects.create_user('bob', display_name='Bob B')
User.objects.create_user('carl', display_name='Carl C')
gardener = make('Gardener', 'gardener', 'listed', picture=picture('#9ecbe8', '#3c7a3f'))
gardener.people.add(bob)
tutor = 'Tutor for mathematics and the natural sciences'
make(tutor, 'tutor', picture=picture('#f2d6a2', '#a34b2b'))
make('مساعد', 'arabic')
"""
# How far the settings may be scrolled sideways.
TOO_WIDE = "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(settings)"
CHOSEN = """
from core.models import ChatSession, Run
session = ChatSession.objects.get(public_id='{0}')
runs = Run.objects.filter(session=session).order_by('id')
print([session.assistant_id, *runs.values_list('assistant_id', flat=True)])
"""


@pytest.fixture(scope="module", autouse=True)
def assistants(gateway: Gateway) -> None:
    """Set up four assistants and two models; Bob may choose two assistants, Carl none."""
    shell(gateway, SETUP)


@pytest.fixture
def page_of(
    browser: Browser, gateway: Gateway
) -> Iterator[Callable[[str, str], tuple[Page, Seen]]]:
    """Return ``page_of(user, name)``: it signs a user in."""
    contexts = []

    def go(user: str, name: str) -> tuple[Page, Seen]:
        context = browser.new_context()
        contexts.append(context)
        page = context.new_page()
        seen = watch(page)
        sign_in(page, link(gateway, user), name)
        return page, seen

    yield go
    for context in contexts:
        context.close()


def picker(page: Page) -> Locator:
    return page.locator("#picker-button")


def option(page: Page, name: str) -> Locator:
    return page.get_by_role("menuitemradio", name=re.compile(f"^{name}"))


def choose(page: Page, name: str) -> None:
    """Choose an assistant or a model by mouse."""
    picker(page).click()
    option(page, name).click()
    expect(picker(page)).to_contain_text(name)


def number_of(gateway: Gateway, slug: str) -> int:
    code = f"from core.models import Assistant; print(Assistant.objects.get(slug='{slug}').pk)"
    return int(shell(gateway, code))


def chosen(gateway: Gateway, page: Page) -> list[int]:
    """Return the stored choice of the chat on the page, then the assistants of its turns."""
    public_id = page.evaluate("location.pathname").removeprefix("/c/")
    found: list[int] = json.loads(shell(gateway, CHOSEN.format(public_id)))
    return found


def test_a_choice_before_the_first_message_holds_for_the_whole_chat(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    expect(page.locator("#demo-model")).to_be_visible()
    choose(page, "Gardener")
    expect(page.locator("#picker-button img")).to_have_js_property("naturalWidth", 96)
    page.reload()
    expect(picker(page)).to_contain_text("Gardener")
    ask(page, "Some markdown")
    finished(page)
    gardener = number_of(gateway, "gardener")
    assert chosen(gateway, page) == [gardener, gardener]
    page.reload()
    finished(page)
    expect(picker(page)).to_have_attribute(
        "title", "Gardener answers: it was chosen in this conversation."
    )
    choose(page, "Tutor")
    ask(page, "Again in markdown")
    finished(page, 2)
    tutor = number_of(gateway, "tutor")
    assert chosen(gateway, page) == [tutor, gardener, tutor]
    held = hold(page, "**/chat/assistants?assistant_id=*", times=1)
    page.locator("#new-chat").click()
    come(page, held)
    picker(page).click()  # still that of the chat before
    held.pop().continue_()
    expect(picker(page)).not_to_contain_text("Tutor")
    picker(page).click()
    expect(option(page, "Assistant")).to_be_focused()
    assert seen.problems == []


def test_a_model_of_ones_own_is_named_and_the_demo_notice_goes(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    choose(page, "Big model")
    expect(page.locator("#demo-model")).to_be_hidden()
    expect(picker(page)).to_have_accessible_name("Assistant: Assistant with Big model")
    expect(page.locator("#announcer")).to_have_text("Assistant with Big model answers from now on.")
    picker(page).click()
    page.locator(".picker-group").last.get_by_role("menuitemradio").last.click()
    expect(page.locator("#demo-model")).to_be_visible()
    assert seen.problems == []


def test_the_keyboard_is_enough_to_choose(open_page: OpenPage, gateway: Gateway) -> None:
    page, seen = open_page(gateway)
    ask(page, "hang")
    expect(page.locator(".prose")).to_contain_text("Half of")
    picker(page).focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menu")).to_be_visible()
    expect(picker(page)).to_have_attribute("aria-expanded", "true")
    first = option(page, "Assistant")
    expect(first).to_be_focused()
    expect(first).to_have_attribute("aria-checked", "true")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitemradio").last).to_be_focused()
    page.keyboard.press("Home")
    expect(first).to_be_focused()
    page.keyboard.press("t")
    expect(option(page, "Tutor")).to_be_focused()
    page.keyboard.press("/")
    expect(option(page, "Tutor")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    expect(picker(page)).to_be_focused()
    expect(page.locator(".stopped")).to_have_count(0)  # the answer goes on
    page.keyboard.press("Enter")
    expect(option(page, "Assistant")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("Enter")
    expect(picker(page)).to_contain_text("Gardener")
    expect(picker(page)).to_be_focused()
    page.keyboard.press("Space")
    expect(option(page, "Gardener")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("menu")).to_have_count(0)
    expect(picker(page)).not_to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".stopped")).to_be_visible()
    assert seen.problems == []


def test_another_tab_shows_the_choice_at_once(open_page: OpenPage, gateway: Gateway) -> None:
    here, _ = open_page(gateway)
    ask(here, "Some markdown")
    finished(here)
    there, seen = open_page(gateway, here.evaluate("location.pathname"))
    finished(there)
    picker(there).click()
    expect(option(there, "Assistant")).to_be_focused()
    choose(here, "Gardener")
    expect(picker(there)).to_contain_text("Gardener")
    expect(option(there, "Gardener")).to_have_attribute("aria-checked", "true")
    expect(option(there, "Assistant")).to_be_focused()  # the open menu is drawn anew around it
    expect(there.locator("#announcer")).to_have_text("Gardener answers from now on.")
    assert seen.problems == []


def test_an_assistant_that_was_just_withdrawn_is_refused_in_words(
    page_of: PageOf, gateway: Gateway
) -> None:
    page, seen = page_of("bob", "Bob B")
    picker(page).click()
    expect(page.locator(".picker-item .picker-name")).to_have_text(["Assistant", "Gardener"])
    page.keyboard.press("Escape")
    ask(page, "Some markdown")
    finished(page)
    picker(page).click()
    expect(option(page, "Gardener")).to_be_visible()
    withdraw = "from core.models import Assistant; row = Assistant.objects.get(slug='gardener');"
    shell(gateway, f"{withdraw} row.offered = 'nobody'; row.save()")
    option(page, "Gardener").click()
    expect(page.locator("#toasts")).to_contain_text("This assistant does not exist.")
    expect(page.locator(".picker-only")).to_have_text("Assistant")
    assert chosen(gateway, page)[0] == 0
    page.locator("#new-chat").click()
    shell(gateway, f"{withdraw} row.offered = 'listed'; row.save()")
    page.reload()
    choose(page, "Gardener")
    shell(gateway, f"{withdraw} row.offered = 'nobody'; row.save()")
    ask(page, "Hello?")
    expect(page.locator(".refused .error-block")).to_contain_text("This assistant does not exist.")
    expect(page.locator(".picker-only")).to_have_text("Assistant")
    expect(page.get_by_label("Message", exact=True)).to_have_value("Hello?")
    page.get_by_label("Message", exact=True).press("Enter")
    finished(page)
    shell(gateway, f"{withdraw} row.offered = 'listed'; row.save()")
    assert all("404" in problem for problem in seen.problems)


def test_with_one_choice_only_the_name_is_shown(page_of: PageOf, gateway: Gateway) -> None:
    page, seen = page_of("carl", "Carl C")
    expect(page.locator("#picker")).to_have_text("Assistant")
    expect(page.locator("#picker button, #picker img")).to_have_count(0)
    photograph(page, "picker-one-choice")
    assert seen.problems == []


def test_an_answer_of_another_model_says_so(open_page: OpenPage, gateway: Gateway) -> None:
    page, seen = open_page(gateway)
    ask(page, "Some markdown")
    finished(page)
    expect(page.locator(".answered-by")).to_have_count(0)
    shell(
        gateway,
        "from core.models import Message; row = Message.objects.filter(role='assistant').last();"
        "row.data['answered_by'] = 'Small <b>model</b>'; row.save()",
    )
    page.reload()
    expect(page.locator(".answered-by")).to_have_text("Answered by Small <b>model</b>")
    photograph(page, "picker-answered-by")
    assert seen.problems == []


USED = """
from django.utils import timezone
from core.conversations import budgets
from core.models import Budget, BudgetPeriod, ModelCall, User
ada, day = User.objects.get(username='ada'), budgets.day_of(timezone.now())
ModelCall.objects.create(user=ada, day=day, prompt_tokens=70000, completion_tokens=5000,
                         cost=1_250_000_000, estimated=True)
def limit(spent, **fields):
    row = Budget.objects.create(**fields)
    BudgetPeriod.objects.create(budget=row, person=ada.pk if row.each_person else 0, spent=spent,
        measure=budgets.measure_of(row), start=budgets.start_of(row.period, day))
limit(1_250_000_000, unit='money', period='month', limit=5_000_000_000, each_person=True)
limit(75_000, unit='tokens', period='day', limit=80_000, user=ada)
limit(2_000_000, unit='tokens', period='month', limit=2_000_000)
"""


CLEAN = """
from core.models import Budget, ModelCall
Budget.objects.all().delete()
ModelCall.objects.all().delete()
"""


@pytest.fixture
def no_usage(gateway: Gateway) -> Iterator[None]:
    """Begin and end without calls and budgets."""
    shell(gateway, CLEAN)
    yield
    shell(gateway, CLEAN)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.usefixtures("no_usage")
def test_the_settings_show_ones_usage_and_the_rest_of_budgets(
    open_page: OpenPage, gateway: Gateway, scheme: str
) -> None:
    page, seen = open_page(gateway, viewport={"width": 320, "height": 740}, color_scheme=scheme)
    page.locator("#open-sidebar").click()
    page.locator("[data-open-settings]").click()
    usage = page.get_by_role("region", name="Usage")
    expect(usage.get_by_role("row", name="Today")).to_have_text("Today0–")
    expect(usage.locator(".budget")).to_have_count(0)
    photograph(page, f"usage-{scheme}-none")
    page.keyboard.press("Escape")
    shell(gateway, USED)
    page.locator("[data-open-settings]").click()
    expect(usage.locator(".budget")).to_have_count(3)
    expect(usage.get_by_role("row", name="Today")).to_have_text("Today≈ 75,000$1.25")
    expect(usage.locator(".budget").first).to_contain_text("$5.00 a month")
    expect(usage.locator(".budget").first).to_contain_text("$3.75 left")
    expect(usage.get_by_role("progressbar").nth(1)).to_have_class("near")
    expect(usage.get_by_role("progressbar").nth(2)).to_have_class("full")
    assert page.evaluate(TOO_WIDE) == 0
    photograph(page, f"usage-{scheme}")
    assert seen.problems == []


MUCH = """
from django.utils import timezone
from core.conversations import budgets
from core.models import ModelCall, User
ModelCall.objects.create(user=User.objects.get(username='ada'), day=budgets.day_of(timezone.now()),
    prompt_tokens=51_234_567, completion_tokens=0, cost=1_193_001_200_000, estimated=True)
"""
# The amounts of a table whose text has more than one line.
BROKEN = """(table) => [...table.querySelectorAll("td")].filter((cell) => {
  const text = document.createRange();
  text.selectNodeContents(cell);
  return text.getClientRects().length > 1;
}).map((cell) => cell.textContent)"""


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "zh-CN", "ja"])
@pytest.mark.usefixtures("no_usage")
def test_large_amounts_of_usage_stay_on_one_line_of_a_narrow_phone(
    open_page: OpenPage, gateway: Gateway, language: str
) -> None:
    shell(gateway, MUCH)
    page, _ = open_page(gateway, viewport={"width": 320, "height": 740}, locale=language)
    page.locator("#open-sidebar").click()
    page.locator("[data-open-settings]").click()
    table = page.locator(".usage table")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table.locator("tbody td").first).to_have_attribute("title", re.compile("^51.234.567$"))
    assert table.evaluate(BROKEN) == []
    assert table.evaluate("(table) => table.offsetWidth - table.parentElement.clientWidth") <= 0
    photograph(page, f"usage-much-{language}")


SHAPES = {"desktop": (1280, 800), "phone": (390, 844), "narrow": (320, 640)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_picker_fits_every_window(
    open_page: OpenPage, gateway: Gateway, shape: str, scheme: str
) -> None:
    width, height = SHAPES[shape]
    page, seen = open_page(
        gateway, viewport={"width": width, "height": height}, color_scheme=scheme
    )
    expect(picker(page)).to_be_visible()
    photograph(page, f"picker-{shape}-{scheme}-closed")
    picker(page).click()
    expect(option(page, "Gardener")).to_be_visible()
    assert page.evaluate(WIDEST) <= width
    assert page.evaluate(SMALLEST) >= 44
    photograph(page, f"picker-{shape}-{scheme}-open")
    option(page, "Tutor").click()
    expect(picker(page)).to_contain_text("Tutor")
    photograph(page, f"picker-{shape}-{scheme}-tutor")
    picker(page).click()
    option(page, "Big model").click()
    expect(picker(page)).to_contain_text("Big model")
    ask(page, "Some markdown")
    finished(page)
    photograph(page, f"picker-{shape}-{scheme}-chat")
    page.evaluate("document.documentElement.dir = 'rtl'")
    picker(page).click()
    for shown in page.get_by_role("menuitemradio").all():
        expect(shown).to_be_in_viewport(ratio=1)
    photograph(page, f"picker-{shape}-{scheme}-rtl")
    assert seen.problems == []
