"""The owner's pages of models in a real browser, on a desktop and on a phone, light and dark."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests import fake_model
from tests.browser.conftest import Seen, fits, shell
from tests.fake_model import FakeModel
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
OpenPage = Callable[..., tuple[Page, Seen]]
DESKTOP = {"viewport": {"width": 1400, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
BACKGROUND = "(it) => getComputedStyle(it).backgroundColor"
SIZES = [pytest.param(DESKTOP, id="desktop"), pytest.param(PHONE, id="phone")]
CALLS = """
import datetime, random
from django.utils import timezone
from core.conversations import budgets
from core.models import Assistant, Budget, BudgetPeriod, ChannelAccount, ModelCall, User
random.seed(4)
ada = User.objects.get(username="ada")
ben = User.objects.get_or_create(username="ben", defaults={"display_name": "Ben"})[0]
account = ChannelAccount.objects.order_by("id").first()
default = Assistant.objects.get(is_default=True)
today = budgets.day_of(timezone.now())
ModelCall.objects.bulk_create(
    ModelCall(
        user=random.choice([ada, ada, ben]), day=today - datetime.timedelta(days=back),
        account_id=account.pk if account else 0, assistant_id=default.pk,
        model_name=random.choice(["large", "large", "small"]), cost=random.randrange(10**7, 10**8),
        prompt_tokens=random.randrange(9000), completion_tokens=random.randrange(900),
        failure="quota" if random.random() < 0.1 else "",
    )
    for back in range(30) for _ in range(random.randrange(1, 9))
)
for each, spent in ((Budget.objects.create(limit=20 * 10**9), 17 * 10**9),):
    BudgetPeriod.objects.create(
        budget=each, start=budgets.start_of(each.period, today), spent=spent, reserved=10**9,
        measure=budgets.measure_of(each),
    )
each = Budget.objects.create(limit=50, unit="messages", period="day", each_person=True)
for person, spent in ((ada, 12), (ben, 50)):
    BudgetPeriod.objects.create(
        budget=each, person=person.pk, start=today, spent=spent, measure=budgets.measure_of(each)
    )
"""
BREAK = """
import datetime
from django.utils import timezone
from core.models import LanguageModel, ModelCircuit
now = timezone.now()
ModelCircuit.objects.update_or_create(
    model=LanguageModel.objects.filter(name="small").order_by("-id").first(), defaults=dict(
        failures=4, opened_at=now - datetime.timedelta(minutes=7), openings=2, code="overloaded",
        probe_at=now + datetime.timedelta(minutes=4, seconds=30), reason="It is overloaded.",
    )
)
"""


@pytest.fixture
def server() -> Iterator[FakeModel]:
    """Yield a model server with two models."""
    with fake_model.running() as running:
        running.models = ["large", "small", *(f"tiny-{number}" for number in range(15))]
        yield running


def field(page: Page, name: str) -> Locator:
    """Return the row of a field of a form, with its error."""
    return page.locator(f"[name={name}]").locator("xpath=ancestor::div[contains(@class,'grow')][1]")


def save(page: Page) -> None:
    """Press the button of a form's page."""
    page.get_by_role("button", name="Save", exact=True).click()


def photograph(page: Page, name: str, **options: Any) -> None:
    """Keep what the window shows, light and dark, when the folder of the pictures is named."""
    folder = os.environ.get("TEST_PICTURES")
    for theme in ("light", "dark") if folder else ():
        page.evaluate("t => document.documentElement.classList.toggle('dark', t == 'dark')", theme)
        path = Path(str(folder)) / f"models-{name}-{page.viewport_size['width']}-{theme}.png"  # type: ignore[index]
        page.screenshot(path=path, full_page=True, **options)


@pytest.mark.parametrize("size", SIZES)
def test_the_owner_sets_up_a_provider_and_its_models(
    open_page: OpenPage, gateway: Gateway, server: FakeModel, size: dict[str, Any]
) -> None:
    """Errors stand beside their fields; a saved provider is asked at once."""
    name = f"Shed {size['viewport']['width']}"
    page, seen = open_page(gateway, "/admin/core/modelprovider/add/", **size)
    photograph(page, "1-kinds")
    fits(page)
    page.get_by_role("link", name="OpenAI-compatible server").click()
    page.locator("[name=name]").fill(name)
    page.locator("[name=base_url]").fill(server.url)
    page.locator("[name=key]").fill("sk-planted-0123456789")
    save(page)
    expect(field(page, "base_url")).to_contain_text("inside your network")
    assert page.locator("[name=key]").input_value() == ""
    photograph(page, "2-error")
    fits(page)
    page.locator("[name=allow_private]").check()
    page.locator("[name=key]").fill("sk-planted-0123456789")
    save(page)
    expect(page.locator("body")).to_contain_text(f"{name} offers 17 models")
    for each in ("large", "small"):
        page.get_by_role("button", name=f"Add {each}", exact=True).click()
        expect(page.locator("body")).to_contain_text(f"{each} was added")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.locator("body")).to_contain_text("large answers.")
    photograph(page, "3-provider")
    fits(page)
    assert seen.problems == []


MODELS = """
from core.models import LanguageModel, ModelProvider
row = ModelProvider.objects.get_or_create(name="{name}", base_url="http://127.0.0.1:9/v1")[0]
for each in ("large", "small"):
    LanguageModel.objects.get_or_create(provider=row, name=each)
"""


@pytest.mark.parametrize("size", SIZES)
def test_the_owner_tries_a_model_again(
    open_page: OpenPage, gateway: Gateway, size: dict[str, Any]
) -> None:
    """The circuit says what is wrong; a price below zero has its error beside it."""
    shell(gateway, MODELS.format(name="Mill") + BREAK)
    page, seen = open_page(gateway, "/admin/core/languagemodel/?q=Mill", **size)
    page.get_by_role("link", name="small", exact=True).click()
    expect(page.locator("body")).to_contain_text("It is overloaded.")
    page.locator("[name=input_price]").fill("-1")
    save(page)
    expect(field(page, "input_price")).to_contain_text("below zero")
    photograph(page, "4-model")
    fits(page)
    page.get_by_role("button", name="Try again now").click()
    expect(page.locator("body")).to_contain_text("The model is asked as usual.")
    assert seen.problems == []


@pytest.mark.parametrize("size", SIZES)
def test_the_owner_makes_an_assistant(
    open_page: OpenPage, gateway: Gateway, size: dict[str, Any]
) -> None:
    """An empty chain has its error beside it, which is shown also where Django's script, which
    takes the focus to the first field, is slow; edits of the instructions are versions."""
    name = f"Barn {size['viewport']['width']}"
    shell(gateway, MODELS.format(name=name))
    page, seen = open_page(gateway, "/admin/core/assistant/add/", **size)
    page.locator("[name=name]").fill(f"Pirate of {name}")
    page.locator("[name=instructions]").fill("Speak as a pirate.")
    held: list[Route] = []
    page.route("**/admin/js/change_form*.js", partial(list.append, held))
    save(page)
    expect(page.locator("#chain-group .errornote")).to_contain_text("Add at least one model")
    page.wait_for_load_state("domcontentloaded")
    for each in held:
        each.continue_()
    page.unroute("**/admin/js/change_form*.js")
    page.wait_for_load_state()
    expect(page.locator("#chain-group .errornote")).to_be_in_viewport()
    assert held
    photograph(page, "5-empty-chain")
    fits(page)
    page.locator("[name=chain-0-model]").select_option(label=f"{name}: large")
    page.locator("#chain-group").get_by_text("Add another").click()
    page.locator("[name=chain-1-model]").select_option(label=f"{name}: small")
    page.locator("[name=chain-1-position]").fill("2")
    save(page)
    expect(page.locator("#result_list")).to_contain_text(f"Pirate of {name}")
    photograph(page, "6-assistants")
    page.get_by_role("link", name=f"Pirate of {name}").first.click()
    page.locator("[name=instructions]").fill("Speak as a captain.")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.locator("body")).to_contain_text("Version 2")
    photograph(page, "7-assistant")
    fits(page)
    assert seen.problems == []


@pytest.mark.parametrize("size", SIZES)
def test_the_owner_limits_usage(
    open_page: OpenPage, gateway: Gateway, size: dict[str, Any]
) -> None:
    """A limit of nothing has its error beside it."""
    page, seen = open_page(gateway, "/admin/core/budget/add/", **size)
    page.locator("[name=amount]").fill("0")
    save(page)
    expect(field(page, "amount")).to_contain_text("more than zero")
    photograph(page, "8-budget")
    fits(page)
    assert seen.problems == []


def the_chosen_stays_so_under_the_pointer(page: Page) -> None:
    """Check that a chosen button has a colour of its own in the dark."""
    chosen, other = (page.get_by_role("link", name=f"{days} days") for days in (90, 30))
    expect(chosen).to_have_class("dashboard-button dashboard-button-yes")
    page.evaluate("document.documentElement.classList.add('dark')")
    chosen.hover()
    under_pointer = chosen.evaluate(BACKGROUND)
    other.hover()
    assert under_pointer != other.evaluate(BACKGROUND)
    page.evaluate("document.documentElement.classList.remove('dark')")


@pytest.mark.parametrize("size", SIZES)
def test_the_owner_sees_usage_and_why_an_assistant_answers(
    open_page: OpenPage, gateway: Gateway, size: dict[str, Any]
) -> None:
    """Plots, tables and bars, without a wider page than the window."""
    shell(gateway, CALLS)
    page, seen = open_page(gateway, "/admin/core/modelcall/usage/", **size)
    expect(page.locator("canvas.chart")).to_be_visible()
    photograph(page, "9-usage")
    fits(page)
    page.get_by_role("link", name="90 days").click()
    the_chosen_stays_so_under_the_pointer(page)
    with page.expect_download() as download:
        page.get_by_label("By person").get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename.startswith("usage-person-")
    page.goto(f"{gateway.base_url}/admin/core/budget/")
    expect(page.locator("#result_list")).to_contain_text("$17.00 of $20.00 · 90 %")
    photograph(page, "10-budgets")
    fits(page)
    page.locator("#result_list tbody tr").last.get_by_role("link").first.click()
    expect(page.locator("body")).to_contain_text("50 of 50 · 100 %")
    photograph(page, "11-budget")
    fits(page)
    page.goto(f"{gateway.base_url}/admin/core/modelcall/")
    photograph(page, "12-calls")
    fits(page)
    page.goto(f"{gateway.base_url}/admin/core/assistant/why/")
    page.get_by_label("Person").fill("ada")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("body")).to_contain_text("answers: it is the default.")
    photograph(page, "13-why")
    fits(page)
    page.goto(f"{gateway.base_url}/admin/core/languagemodel/")
    photograph(page, "14-models")
    fits(page)
    page.goto(f"{gateway.base_url}/admin/core/modelprovider/")
    photograph(page, "15-providers")
    fits(page)
    assert seen.problems == []
