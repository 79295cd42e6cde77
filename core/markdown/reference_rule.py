"""Rules for the parser of pages: footnotes, definitions of links, and indices that look like links
([T2]).
"""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline

from . import footnotes
from .words import index_end

# One that can be opened; `[INFO]: main.py` is text, and so is a footnote.
ADDRESS = re.compile(r"\[(?!\^)[^\]]{1,1000}\]:\s*<?(?:https?://|mailto:|/files/)", re.IGNORECASE)


def plugin(parser: MarkdownIt) -> None:
    """Let a parser follow them: ``MarkdownIt().use(plugin)``."""
    parser.block.ruler.at("reference", definition)
    parser.core.ruler.before("inline", "footnotes", collect)
    parser.inline.ruler.before("link", "footnote", bracket)


def definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    """Read the definition of a link that leads somewhere; any other line is shown."""
    found = ADDRESS.match(state.src, state.bMarks[start] + state.tShift[start])
    return found is not None and reference(state, start, end, silent)


def collect(state: StateCore) -> None:
    if "[^" in state.src:
        texts = (token.content for token in state.tokens if token.type == "inline")
        state.env["footnotes"] = footnotes.numbers(texts)


def bracket(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Show the mark of a footnote raised, and an index as text."""
    if state.src[state.pos] != "[":
        return False
    end = index_end(state.src, state.pos)
    mark = footnotes.mark_at(state.src, state.pos, state.env.get("footnotes", ()))
    if not end and (mark is None or mark.end > state.posMax):
        return False
    if silent:  # within the text of a link: a bracket, as links do not stand in links
        state.pos += 1
    elif mark is not None:
        raised(state, mark)
        state.pos = mark.end
    else:
        state.append_pending(state.src[state.pos : end])
        state.pos = end
    return True


def raised(state: StateInline, mark: footnotes.Footnote) -> None:
    if mark.is_note and state.tokens and state.tokens[-1].type == "softbreak":
        state.tokens[-1].type = "hardbreak"
    state.push("sup_open", "sup", 1)
    state.push("text", "", 0).content = mark.number
    state.push("sup_close", "sup", -1)
    if mark.is_note:
        state.append_pending(" ")
