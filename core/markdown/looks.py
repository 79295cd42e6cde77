"""The channels' representation of constructs other than text."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Look:
    """A channel's representation of constructs other than text."""

    bullet: str
    todo: str
    done: str
    image: str  # in front of an image's description
    links_as_text: bool  # the address is written behind the text
    code_beside_bullet: bool  # an item's code may begin on the bullet's line
    code_indent: str = ""  # in front of every line of an indented code block
    fenced: bool = False  # code is written with its fence
    formulas: bool = False  # formulas are drawn with the characters of Unicode
    folds: bool = False  # long quotes and details can be folded
    notes: bool = True  # many addresses go to notes at the end
    boxes: bool = False  # code is drawn in a box, which needs no blank line around it


TELEGRAM = Look(
    "•", "☐", "☑", "🖼", links_as_text=False, code_beside_bullet=True, boxes=True,
    formulas=True, folds=True,
)  # fmt: skip
# The end of a text that is still being written is no place for notes.
TELEGRAM_GROWING = replace(TELEGRAM, notes=False)
WHATSAPP = Look("•", "☐", "☑", "", links_as_text=True, code_beside_bullet=False, fenced=True)
PLAIN = Look(
    "-", "- [ ]", "- [x]", "", links_as_text=True, code_beside_bullet=False, code_indent="    "
)


def fenced(content: str, fence: str, *, closed: bool) -> str:
    """Return code in the fence that messengers support: three backticks, no language.

    Content with such a fence keeps the longer one of the source; tildes are not supported.
    """
    if "```" not in content:
        fence = "```"
    elif fence[0] == "~":
        return content
    end = content if content.endswith("\n") or not content else f"{content}\n"
    ticks = fence[: len(fence) - len(fence.lstrip("`"))]
    return f"{fence}\n{end}{ticks}" if closed else f"{fence}\n{content}"
