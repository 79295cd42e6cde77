"""Makes core/plugins/slides/widths.json: how wide characters can be, over the fonts of a machine.

    python -m tests.core.plugins.make_widths

A deck names Arial (and the East Asian faces of its theme); programs may draw it in Liberation Sans,
DejaVu Sans or a Noto face instead. The table holds the widest advance of each, in 1/1000 em, so
that a text that fits by the table fits in all of them. Advances are facts read from the fonts' own
tables; no part of a font is copied. Needs fontconfig and the fonts of fonts-liberation,
fonts-dejavu and fonts-noto.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import ImageFont

from tests import ROOT

TARGET = ROOT / "core" / "plugins" / "slides" / "widths.json"
EM = 1000
BLOCK = 64
LAST = 0x2FFFF
# Text in Latin, Greek or Cyrillic is set in one of PLAIN, whatever other scripts' faces say of it.
EUROPEAN = ((0x20, 0x530), (0x1E00, 0x1F00), (0x2000, 0x2070))
# Scripts whose widths vary much within a block of 64.
EXACT = (*EUROPEAN, (0x590, 0x700), (0xE00, 0xE80), (0x20A0, 0x2150))
PLAIN = ("Liberation Sans", "DejaVu Sans", "Noto Sans")
LEFT_OUT = ("Mono", "Display", "Looped", "Rashi", "Nastaliq", "Condensed", "Light", "Narrow")


@dataclass(frozen=True)
class Face:
    """One face of a font file and the characters that it has."""

    path: str
    index: int
    family: str
    characters: frozenset[int]


def faces(weight: str) -> Iterator[Face]:
    """Return the upright sans faces of this machine of a weight ("Regular" or "Bold")."""
    styles = {"Regular", "Book"} if weight == "Regular" else {weight}
    form = "%{file}|%{index}|%{family[0]}|%{style[0]}|%{charset}\n"
    done = subprocess.run(["fc-list", "--format", form], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        path, index, family, style, charset = line.split("|", 4)
        wanted = family.startswith((*PLAIN, "Noto Naskh", "Noto Kufi")) and style in styles
        if wanted and not any(word in family + style for word in LEFT_OUT):
            yield Face(path, int(index) & 0xFFFF, family, frozenset(numbers(charset)))


def numbers(charset: str) -> Iterator[int]:
    """Return the characters of fontconfig's "20-7e a0 …"."""
    for part in charset.split():
        first, _dash, last = part.partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)


def widest(weight: str) -> dict[int, int]:
    """Return the widest advance of each character, in 1/1000 em."""
    found: dict[int, int] = {}
    for face in faces(weight):
        font = ImageFont.truetype(
            face.path, EM, index=face.index, layout_engine=ImageFont.Layout.BASIC
        )
        for code in face.characters:
            if is_for(code, face.family):
                found[code] = max(found.get(code, 0), round(font.getlength(chr(code))))
    return found


def is_for(code: int, family: str) -> bool:
    """Return whether a text's character ``code`` may be drawn in ``family``."""
    if not 0x20 <= code <= LAST or 0xD800 <= code <= 0xDFFF:
        return False
    return family in PLAIN or not any(first <= code < last for first, last in EUROPEAN)


def table(found: dict[int, int]) -> dict[str, object]:
    """Return ``found`` as runs of single characters and maxima of blocks."""
    return {
        "exact": {
            f"{first:x}": [found.get(code, 0) for code in range(first, last)]
            for first, last in EXACT
        },
        "blocks": {
            f"{start:x}": most
            for start in range(0, LAST, BLOCK)
            if (
                most := max((found.get(code, 0) for code in range(start, start + BLOCK)), default=0)
            )
        },
    }


def main() -> None:
    """Write the table."""
    tables = {weight.lower(): table(widest(weight)) for weight in ("Regular", "Bold")}
    TARGET.write_text(json.dumps(tables, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
