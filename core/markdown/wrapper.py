"""The code fence that a model puts around a whole answer."""

import re

_OPENING = re.compile(r"(`{3,})\w*\s*\Z")
_FENCE = re.compile(r"[ ]{0,3}(`{3,})([^`]*)\Z")


def strip(text: str) -> str:
    """Return the content of a fence that holds the whole text, fences in it included; else the
    text.

    Two blocks with text between them are no wrapper, although the text begins and ends with a
    fence; neither is an unclosed fence, or one whose info string is more than a word.
    """
    lines = text.strip().split("\n")
    opening = _OPENING.match(lines[0])
    if len(lines) < 2 or opening is None or lines[-1].strip() != opening[1]:
        return text
    inner = ""  # the fence of a block inside the wrapper
    for line in lines[1:-1]:
        fence = _FENCE.match(line)
        if fence is None or len(fence[1]) < len(inner or opening[1]):
            continue
        if inner:
            inner = inner if fence[2].strip() else ""
        elif fence[2].strip():
            inner = fence[1]
        else:
            return text
    return text if inner else "\n".join(lines[1:-1])
