"""The process that opens a picture: ``python -m core.media.scaler <path>``, JPEG or PNG to stdout.

With little memory and time: a picture of too many pixels ends it, not the worker. The picture is
rotated by its EXIF data, scaled down for a model, and loses its metadata. With a number of pixels
as a second argument it becomes a square of that side, cut from its middle.
"""

import io
import sys

from core.lib.resource_limits import limit

# Those that people send. Pillow knows many more, and would start Ghostscript for one of them.
FORMATS = ("AVIF", "BMP", "GIF", "ICO", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
MEGABYTE = 1024 * 1024
MEMORY = 1024 * MEGABYTE
SECONDS = 20
MOST_PIXELS = 60_000_000
SIDE = 1568
MOST_BYTES = 3 * MEGABYTE


def scaled(path: str, *, square: int = 0) -> bytes:
    """Return the first frame of a picture, upright, at most SIDE pixels wide and high.

    ``square``: the side of the square that it becomes instead. Raises OSError or ValueError where
    it is none, or has too many pixels.
    """
    from PIL import Image, ImageOps  # noqa: PLC0415 - only in this process

    Image.MAX_IMAGE_PIXELS = None  # ours is below: Pillow asks before the draft
    with Image.open(path, formats=FORMATS) as opened:
        opened.draft("RGB", (SIDE, SIDE))  # of a JPEG a fraction is decoded, as of a phone's 200 MP
        if opened.width * opened.height > MOST_PIXELS:
            raise ValueError("too many pixels")
        upright = ImageOps.exif_transpose(opened)
        if upright.mode.startswith("I;16"):  # of a scanner; Pillow would make most of it white
            upright = upright.convert("I").point(lambda value: value / 256).convert("L")
        clear = "A" in upright.getbands() or "transparency" in upright.info
        mode = "RGBA" if clear else "RGB"
        if square:
            return encoded(ImageOps.fit(upright.convert(mode), (square, square)), clear=clear)
        upright.thumbnail((SIDE, SIDE))
        return encoded(upright.convert(mode), clear=clear)


def encoded(picture: object, *, clear: bool) -> bytes:
    """Return a PNG for partly transparent pictures, if it is small enough; else a JPEG."""
    out = io.BytesIO()
    if clear:
        picture.save(out, "PNG")  # type: ignore[attr-defined]
        if out.tell() <= MOST_BYTES:
            return out.getvalue()
        picture = on_white(picture)
        out = io.BytesIO()
    picture.save(out, "JPEG", quality=85)  # type: ignore[attr-defined]
    return out.getvalue()


def on_white(picture: object) -> object:
    """Return a picture without transparency, which may hide any colour."""
    from PIL import Image  # noqa: PLC0415 - only in this process

    white = Image.new("RGBA", picture.size, "white")  # type: ignore[attr-defined]
    return Image.alpha_composite(white, picture).convert("RGB")  # type: ignore[arg-type]


def main() -> None:
    """Scale the named picture; exit code 1 when it cannot be read."""
    limit(memory=MEMORY, seconds=SECONDS)
    try:
        found = scaled(sys.argv[1], square=int("".join(sys.argv[2:3]) or 0))
    except Exception:  # noqa: BLE001 - any library's word for a damaged picture
        sys.exit(1)
    sys.stdout.buffer.write(found)


if __name__ == "__main__":
    main()
