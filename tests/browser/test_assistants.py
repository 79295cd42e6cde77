"""The picker of the web chat: choosing an assistant and a model, by mouse, finger and keys."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Seen, ask, finished, link, shell, sign_in, watch
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
OpenPage = Callable[..., tuple[Page, Seen]]

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
def make(name, slug, **fields):
    return Assistant.objects.create(name=name, slug=slug, **fields)
own = LanguageModel.objects.get()
provider = ModelProvider.objects.create(name='Big', kind='openai-compatible')
big = LanguageModel.objects.create(provider=provider, name='big-7b', label='Big model', offered=True)
garden = make('Gardener', 'gardener', picture=picture('#9ecbe8', '#3c7a3f'))
AssistantModel.objects.create(assistant=garden, model=big)
make('Tutor for mathematics and the natural sciences', 'tutor', picture=picture('#f2d6a2', '#a34b2b'))
make('مساعد', 'arabic')
make('Night watch', 'watch', offered='nobody')
User.objects.create_user('bob', display_name='Bob B')
"""


@pytest.fixture(scope="module", autouse=True)
def assistants(gateway: Gateway) -> None:
    """Set up five assistants and two models."""
    shell(gateway, SETUP)


def picker(page: Page) -> Locator:
    return page.locator("#picker-button")


def option(page: Page, name: str) -> Locator:
    return page.get_by_role("menuitemradio", name=name)


def photograph(page: Page, name: str) -> None:
    """Keep what the window shows, when a folder is named."""
    folder = os.environ.get("TEST_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name.replace(' ', '-')}.png")


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
    photograph(page, f"picker-{shape}-{scheme}-rtl")
    assert seen.problems == []
