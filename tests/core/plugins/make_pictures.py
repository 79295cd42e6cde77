"""Makes the pictures of docs/presentations.md: python -m tests.core.plugins.make_pictures

Needs LibreOffice. Each picture shows all slides of a deck as LibreOffice draws its .pptx.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pypdfium2
from PIL import Image

from core.plugins.ppt_generation.pptx_file import save
from core.plugins.slides import layout
from tests import ROOT
from tests.core.plugins.decks import DECKS

TARGET = ROOT / "docs" / "images"
SLIDE = (420, 236)
GAP = 10
COLUMNS = 3


def contact_sheet(pdf: Path) -> Image.Image:
    """Return all pages of a PDF in rows of three."""
    pages = [
        page.render(scale=2).to_pil().resize(SLIDE, Image.Resampling.LANCZOS)
        for page in pypdfium2.PdfDocument(str(pdf))
    ]
    rows = -(-len(pages) // COLUMNS)
    size = (COLUMNS * (SLIDE[0] + GAP) + GAP, rows * (SLIDE[1] + GAP) + GAP)
    sheet = Image.new("RGB", size, "#cfcabd")
    for at, page in enumerate(pages):
        down, across = divmod(at, COLUMNS)
        sheet.paste(page, (GAP + across * (SLIDE[0] + GAP), GAP + down * (SLIDE[1] + GAP)))
    return sheet


def main() -> None:
    """Draw every deck."""
    program = shutil.which("soffice") or sys.exit("LibreOffice is missing")
    with TemporaryDirectory() as name:
        folder = Path(name)
        for deck_name, deck in DECKS.items():
            path = folder / f"slides-{deck_name}.pptx"
            save(layout.pages(deck), title=deck.title, language=deck.language, path=path)
            profile = f"-env:UserInstallation=file://{folder}/profile"
            convert = [program, profile, "--headless", "--convert-to", "pdf", "--outdir", name]
            subprocess.run([*convert, str(path)], check=True, capture_output=True)
            sheet = contact_sheet(path.with_suffix(".pdf"))
            sheet.save(TARGET / f"slides-{deck_name}.jpg", quality=80, optimize=True)


if __name__ == "__main__":
    main()
