"""Detect a file's type by its first bytes, ignoring name and declared type. Pure."""

import re

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
MP4_VIDEO = re.compile(rb"hdlr.{8}vide", re.DOTALL)  # a track of pictures
# Names of codecs (https://www.matroska.org/technical/codec_specs.html).
MATROSKA_VIDEO = (b"V_VP8", b"V_VP9", b"V_AV1", b"V_MPEG4", b"V_THEORA")
MATROSKA_AUDIO = (b"A_OPUS", b"A_VORBIS", b"A_AAC", b"A_FLAC", b"A_PCM")
MPEG_AUDIO = frozenset({0xFB, 0xF3, 0xF2, 0xFA})
ADTS = frozenset({0xF1, 0xF9})


def media_type(beginning: bytes, *, declared: str = "") -> str:
    """Return the type that the first bytes (4 KiB suffice) show; "" for an unknown one.

    ``declared`` (a type) decides only where the bytes are ambiguous: whether WebM or MPEG-4 whose
    tracks are not among them holds audio or video.
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
        return BRANDS.get(beginning[8:12]) or of_iso_media(beginning, declared)
    if beginning.startswith(b"OggS"):
        return "video/ogg" if b"theora" in beginning[:200] else "audio/ogg"
    if beginning.startswith(b"\x1a\x45\xdf\xa3"):
        usual = "audio" if declared.startswith("audio/") else "video"
        return f"{of_matroska(beginning) or usual}/webm"
    return ""


def of_iso_media(beginning: bytes, declared: str) -> str:
    """Return the type of an ISO media file of a brand that films and recordings have. ``.3gp``,
    whose films are declared as sound, too, is one.
    """
    is_sound = declared.startswith("audio/") and declared != "audio/3gpp"
    return "audio/mp4" if is_sound and not MP4_VIDEO.search(beginning) else "video/mp4"


def of_matroska(beginning: bytes) -> str:
    """Return ``video`` or ``audio``, by the codecs of the tracks; "" where they come later."""
    if any(each in beginning for each in MATROSKA_VIDEO):
        return "video"
    return "audio" if any(each in beginning for each in MATROSKA_AUDIO) else ""


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
