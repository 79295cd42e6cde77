"""The text that replaces a medium, as requirement 1 words it. Pure."""

from dataclasses import dataclass

HEADINGS = {"image": "Image", "audio": "Voice Message", "video": "Video"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """The known facts about one medium. ``file`` is a handle, never a path on the server.

    ``duration`` is in seconds. ``excerpt`` is the text of a document, when it is short. ``note``
    explains missing content. ``failed``: it could not be fetched.
    """

    kind: str
    file: str = ""
    mime: str = ""
    name: str = ""
    duration: int | None = None
    caption: str = ""
    transcript: str = ""
    description: str = ""
    excerpt: str = ""
    note: str = ""
    failed: bool = False


def media_text(medium: Medium) -> str:
    """Return the text that the agent gets for ``medium``, its caption included."""
    if medium.failed:
        return failed_text(medium)
    understood = bool(medium.description or medium.transcript)
    heading = HEADINGS.get(medium.kind)
    lines = (
        [f"[{heading}]", *known(medium)]
        if understood and heading
        else [f"[{medium.kind} message received]", *handle(medium)]
    )
    if medium.duration is not None and not (understood and medium.kind == "audio"):
        lines.append(f"Duration: {medium.duration}s")
    lines += [f"{label}: {value}" for label, value in
              (("Text", medium.excerpt), ("Note", medium.note), ("Caption", medium.caption))
              if value]  # fmt: skip
    return "\n".join(lines)


def failed_text(medium: Medium) -> str:
    """Return the text of a medium that could not be fetched: its caption, or the failure; and
    the reason.
    """
    said = medium.caption or f"[Failed to process {medium.kind}]"
    return f"{said}\n({medium.note})" if medium.note else said


def known(medium: Medium) -> list[str]:
    """Return the recognised content."""
    found = (("Description", medium.description), ("Transcript", medium.transcript))
    lines = [f"{label}: {value}" for label, value in found if value]
    return [*lines, f"Name: {medium.name}"] if medium.name else lines


def handle(medium: Medium) -> list[str]:
    """Return a reference to content that was not recognised."""
    found = (("Name", medium.name), ("File", medium.file), ("Type", medium.mime))
    return [f"{label}: {value}" for label, value in found if value]
