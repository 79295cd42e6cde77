"""A real Chromium for tests of pages."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield one Chromium for the module."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield running
        running.close()
