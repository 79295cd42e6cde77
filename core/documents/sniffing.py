"""Detect a file's type by its first bytes, ignoring name and declared type. Pure."""

# Beginning -> type. Those that need a second look are in ``of_container``.
BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"#!AMR", "audio/amr"),
    (b"%PDF-", "application/pdf"),
)
RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
# Brands of ISO media files (https://mp4ra.org/registered-types/brands); all others are films.
BRANDS = {
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heic",
    b"msf1": "image/heic",
    b"avif": "image/avif",
    b"qt  ": "video/quicktime",
}
MPEG_AUDIO = frozenset({0xFB, 0xF3, 0xF2, 0xFA})
ADTS = frozenset({0xF1, 0xF9})


def media_type(beginning: bytes, *, declared: str = "") -> str:
    """Return the type that the first bytes (some hundred suffice) show; "" for an unknown one.

    ``declared`` (a type) decides only where the bytes are ambiguous: whether WebM holds audio or
    video.
    """
    for start, found in BEGINNINGS:
        if beginning.startswith(start):
            return found
    return of_container(beginning, declared) or of_frames(beginning)


def of_container(beginning: bytes, declared: str) -> str:
    """Return the type of a RIFF, ISO, Ogg or Matroska file; "" for any other."""
    if beginning.startswith(b"RIFF"):
        return RIFF.get(beginning[8:12], "")
    if beginning[4:8] == b"ftyp":
        return BRANDS.get(beginning[8:12], "video/mp4")
    if beginning.startswith(b"OggS"):
        return "video/ogg" if b"theora" in beginning[:200] else "audio/ogg"
    if beginning.startswith(b"\x1a\x45\xdf\xa3"):
        return "audio/webm" if declared.startswith("audio/") else "video/webm"
    return ""


def of_frames(beginning: bytes) -> str:
    """Return the type of sound that has no head: MPEG or ADTS frames from the first byte on."""
    if len(beginning) < 2 or beginning[0] != 0xFF:
        return ""
    if beginning[1] in MPEG_AUDIO:
        return "audio/mpeg"
    return "audio/aac" if beginning[1] in ADTS else ""


def family(content_type: str) -> str:
    """Return ``image``, ``audio`` or ``video``; "" for every other type. SVG is a document."""
    kind = content_type.partition("/")[0]
    return kind if kind in {"image", "audio", "video"} and "svg" not in content_type else ""
