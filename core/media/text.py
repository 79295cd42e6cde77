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
    if understood and heading:
        lines = [f"[{heading}]"]
        lines += labelled(
            Description=medium.description, Transcript=medium.transcript, Name=medium.name
        )
    else:
        lines = [f"[{medium.kind} message received]"]
        lines += labelled(Name=medium.name, File=medium.file, Type=medium.mime)
    if medium.duration is not None and not (understood and medium.kind == "audio"):
        lines.append(f"Duration: {medium.duration}s")
    lines += [f"Text: {medium.excerpt}"] if medium.excerpt else []
    lines += labelled(Note=medium.note)
    lines += [f"Caption: {medium.caption}"] if medium.caption else []
    return "\n".join(lines)


def failed_text(medium: Medium) -> str:
    """Return the text of a medium that could not be fetched: its caption, or the failure; and
    its name with the reason. A caption hides the kind, which stands in the place of no name.
    """
    said = medium.caption or f"[Failed to process {medium.kind}]"
    kind = medium.kind if medium.caption and medium.note else ""
    reason = ": ".join(each for each in (medium.name or kind, medium.note) if each)
    return f"{said}\n({reason})" if reason else said


def labelled(**fields: str) -> list[str]:
    """Return a line for each field; further lines of it are indented."""
    return [
        f"{label}: " + "\n  ".join(value.splitlines()) for label, value in fields.items() if value
    ]
