"""Draw the icons of the installed web chat from its mark: ``python -m tests.browser.icons``.

A plain icon is the mark itself. Of a maskable one a system may cut a circle of 80 % (W3C, Web
Application Manifest), and iOS rounds the corners itself: there the ground fills the square.
"""

import re
import shutil
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests import ROOT

STATIC = ROOT / "channels_app" / "static" / "latchkey"
MARK = STATIC / "mark.svg"
FOLDER = STATIC / "icons"
# Name, pixels, and the part of the square that the drawing fills; None: with the mark's own ground.
ICONS: tuple[tuple[str, int, float | None], ...] = (
    ("app", 192, None),
    ("app", 512, None),
    ("maskable", 192, 1.0),
    ("maskable", 512, 1.0),
    ("apple-touch", 180, 1.1),
)
BADGE = ("badge", 96)


def drawing(name: str, part: float | None) -> str:
    """Return the SVG of an icon."""
    mark = MARK.read_text(encoding="utf-8")
    if name == BADGE[0]:  # systems take its shape only
        return re.sub(r"<rect[^>]*/>", "", mark).replace("#e0b269", "#ffffff")
    if part is None:
        return mark
    found = re.search(r'<rect[^>]*fill="(#\w+)"/>(<g.*</g>)</svg>', mark)
    assert found is not None, "the mark has another form"
    ground, inner = found.groups()
    shift = 16 * (1 - part)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
        f'<rect width="32" height="32" fill="{ground}"/>'
        f'<g transform="translate({shift} {shift}) scale({part})">{inner}</g></svg>'
    )


def drawn(browser: Browser, name: str, pixels: int, part: float | None) -> bytes:
    """Return an icon as PNG."""
    page = browser.new_page(viewport={"width": pixels, "height": pixels})
    svg = drawing(name, part).replace("<svg ", f'<svg width="{pixels}" height="{pixels}" ', 1)
    page.set_content(f"<style>body{{margin:0}}svg{{display:block}}</style>{svg}")
    found = page.screenshot(omit_background=True)
    page.close()
    return found


def path_of(name: str, pixels: int) -> Path:
    """Return where an icon is stored."""
    return FOLDER / f"{name}-{pixels}.png"


def main() -> None:
    """Draw all icons."""
    FOLDER.mkdir(exist_ok=True)
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, pixels, part in (*ICONS, (*BADGE, None)):
            path_of(name, pixels).write_bytes(drawn(browser, name, pixels, part))
        browser.close()


if __name__ == "__main__":
    main()
