"""Rules for the parser of pages: styles that models write in HTML, and alerts ([T2])."""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline

from .document import ALERT

# The element that shows each tag.
SHOWN = {
    "b": "strong", "strong": "strong", "summary": "strong", "i": "em", "em": "em", "u": "u",
    "ins": "u", "s": "s", "strike": "s", "del": "s", "code": "code", "kbd": "kbd", "mark": "mark",
    "small": "small", "sub": "sub", "sup": "sup",
}  # fmt: skip
# Blocks, as in the cell of a table: their texts stand below each other.
BLOCKS = {"ul": "", "ol": "", "li": "• ", "p": "", "summary": ""}
LOOSE = {"ul", "ol", "li", "summary"}  # may begin with a space
BEGINNING = re.compile(r"\s*<p>\S", re.IGNORECASE)  # a text of paragraphs, as in HTML
LISTED = re.compile(r"\s*<li>", re.IGNORECASE)
TAG = re.compile(
    rf"<(?:(?P<style>{'|'.join(SHOWN | BLOCKS)})>|(?P<break>br)\s*/?>\n?"
    r"|/?details(?: open)?>(?=\s*(?:<summary>|\n|\Z))\n?)",
    re.IGNORECASE,
)
LONGEST = 2000  # characters between two tags: each tag without an end is searched for


def plugin(parser: MarkdownIt) -> None:
    """Let a parser read them: ``MarkdownIt().use(plugin)``."""
    parser.inline.ruler.before("autolink", "tag", tag)
    parser.core.ruler.before("inline", "alerts", alerts)
    parser.core.ruler.after("inline", "hide_empty", hide_empty)


def tag(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Show a tag of HTML without attributes: a break, a style that ends in the same paragraph; not
    where something is folded. Any other stays text.
    """
    found = TAG.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if found["style"]:
        return style(state, found, silent=silent)
    if found["break"] and not silent:
        state.push("hardbreak", "br", 0)
    state.pos = found.end()
    return True


def style(state: StateInline, found: re.Match[str], *, silent: bool) -> bool:
    name, most = found["style"].lower(), state.posMax
    closing = f"</{name}>"
    end = end_of(state.src, found, most)
    if end < 0 or state.src.count("`", found.end(), end) % 2:
        return False  # no end, or one within code
    if is_spoken_of(state.src, found):
        return False
    if not silent:
        if name in BLOCKS:
            begin_line(state)
            state.append_pending(BLOCKS[name])
        if name in SHOWN:
            state.push("tag_open", SHOWN[name], 1)
        state.pos, state.posMax = found.end(), end
        state.level += name in BLOCKS  # the others count when they are pushed; the library's limit
        state.md.inline.tokenize(state)
        state.level -= name in BLOCKS
        state.posMax = most
        if name in SHOWN:
            state.push("tag_close", SHOWN[name], -1)
        if name in BLOCKS and state.src[end + len(closing) : most].strip(" ")[:1] not in "<\n":
            begin_line(state)
    state.pos = end + len(closing)
    return True


def end_of(text: str, opening: re.Match[str], most: int) -> int:
    """Return where the end of a tag begins, behind tags of the same name in it; -1 without one."""
    depth = 1
    tags = re.compile(rf"<(/?){opening['style']}>", re.IGNORECASE)
    for each in tags.finditer(text, opening.end(), min(most, opening.end() + LONGEST)):
        depth += -1 if each[1] else 1
        if depth == 0:
            return each.start()
    return -1


def is_spoken_of(text: str, opening: re.Match[str]) -> bool:
    """Return whether a tag is no markup, but what a sentence is about: *wrap it in <p>*."""
    name, start = opening["style"].lower(), opening.end()
    if name not in LOOSE and text.startswith(" ", start):
        return True
    before = text[max(0, opening.start() - 99) : opening.start()].rstrip(" ")
    if name == "p" and BEGINNING.match(text):
        return False
    is_list = name in {"ul", "ol"} and LISTED.match(text, start)
    return name in BLOCKS and before[-1:] not in {"", "\n", ">"} and not is_list


def begin_line(state: StateInline) -> None:
    is_begun = state.pending.strip(" •") or (state.tokens and state.tokens[-1].tag != "br")
    if is_begun:
        state.push("hardbreak", "br", 0)


def alerts(state: StateCore) -> None:
    """Let the first paragraph of a quote that begins ``[!NOTE]`` begin with **Note:**."""
    for quote, _, paragraph in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        is_first = quote.type == "blockquote_open" and paragraph.type == "inline"
        if is_first and (found := ALERT.match(paragraph.content)):
            rest = paragraph.content[found.end() :]
            paragraph.content = f"**{found[1].capitalize()}:**{found[2] or ' '}{rest}"


def hide_empty(state: StateCore) -> None:
    """Leave out the paragraphs that held tags of folded parts alone."""
    for before, text, after in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if before.type == "paragraph_open" and not text.children:
            before.hidden = after.hidden = True
