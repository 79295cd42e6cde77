r"""LaTeX in answers and saved pages as MathML, which browsers render without scripts or fonts.

``$…$``, ``$$…$$``, ``\(…\)`` and ``\[…\]`` as models write them; the sanitiser checks the result.
Formulas that cannot be converted are shown as written.
"""

import re
from collections.abc import MutableMapping, Sequence
from html import escape, unescape
from typing import Any, Final
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from .formulas import bracketed_end, dollar_end

# 50 µs a character in the worst case (measured: indices without end): 0.4 s an answer.
MAX_CHARACTERS: Final = 8_000
MAX_LINES: Final = 60
# On a phone a line holds about so much of a formula; a browser does not break one.
LONG: Final = 30
# Macros that expand each other grow without bound.
DEFINES: Final = re.compile(r"\\(?:re|provide)?newcommand|\\[egx]?def(?![a-z])|\\let(?![a-z])")
# Environments that the library does not lay out, as ones that it does.
LAID_OUT_AS: Final = {
    "aligned": "split", "alignedat": "split", "alignat": "split", "gathered": "matrix",
    "gather": "matrix", "multline": "matrix", "dcases": "cases", "eqnarray": "array",
}  # fmt: skip
ENVIRONMENT: Final = re.compile(
    rf"\\(begin|end)\{{({'|'.join(LAID_OUT_AS)})\*?\}}(?:\[[tbc]\])?(?:(?<=at\}}|t\*\}})\{{\d+\}})?"
)
UNSEEN: Final = re.compile(
    r"\\(?:nonumber|notag|hfill)(?![a-zA-Z])|\\label\{[^{}]*\}|(?<=\\\\)\[-?[\d.]{1,6} ?[a-z]{2}\]"
)
OPERATOR: Final = re.compile(r"\\arg(?![a-zA-Z])")
# A command or a column that was not understood.
NOT_DRAWN: Final = re.compile(r"\\[a-zA-Z]+|&")
CLOSERS: Final = {"$$": "$$", "\\[": "\\]"}

TAGS: Final = frozenset(
    {"math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle"}
    | {"msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts"}
    | {"mtable", "mtr", "mtd", "mpadded", "mphantom", "menclose", "none"}
)
ATTRIBUTES: Final = {
    "math": {"display"},
    "mi": {"mathvariant"},
    "mo": {"stretchy", "fence", "form", "separator", "accent", "movablelimits", "minsize"},
    "mspace": {"width"},
    "mfrac": {"linethickness"},
    "mover": {"accent"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"displaystyle", "rowspacing", "columnspacing"},
    "mtd": {"columnalign"},
    "menclose": {"notation"},
}
# No negative or large spaces: a formula must not overlap other text.
VALUE: Final = re.compile(r"[a-z ]{1,60}|\d{0,2}(?:\.\d{1,3})?(?:em|ex|px|pt|mu)?")


def plugin(parser: MarkdownIt) -> None:
    """Add inline and block formulas to ``parser``."""
    parser.inline.ruler.before("escape", "formula", _inline)
    parser.block.ruler.before("fence", "formula_block", _block, {"alt": ["paragraph", "reference"]})
    parser.add_render_rule("formula", _shown)
    parser.add_render_rule("formula_block", _shown)


def mathml(tex: str, *, block: bool) -> str:
    """Return the ``<math>`` of a formula; ``""`` when it cannot be converted."""
    if DEFINES.search(tex):
        return ""
    tex = OPERATOR.sub(r"\\operatorname{arg}", UNSEEN.sub("", ENVIRONMENT.sub(_known, tex)))
    try:
        root = _element(tex, block=block)
        if root.find(".//mspace[@linebreak]") is not None:  # browsers do not break there
            name = "split" if "&" in tex else "matrix"
            root = _element(rf"\begin{{{name}}}{tex}\end{{{name}}}", block=block)
    except Exception:  # noqa: BLE001 - a model's half of a formula raises whatever it raises
        return ""
    for element in root.iter():
        element.text = unescape(element.text or "")  # symbols come as character references
        is_sign = element.text == "&" and r"\&" in tex
        if element.tag == "mi" and NOT_DRAWN.fullmatch(element.text) and not is_sign:
            return ""
    return tostring(root, encoding="unicode")


def _known(found: re.Match[str]) -> str:
    name = LAID_OUT_AS[found[2]]
    columns = "{rcl}" if name == "array" and found[1] == "begin" else ""
    return rf"\{found[1]}{{{name}}}{columns}"


def _element(tex: str, *, block: bool) -> Element:
    return convert_to_element(tex, display="block" if block else "inline")


def _inline(state: StateInline, silent: bool) -> bool:  # noqa: FBT001
    source, at = state.src, state.pos
    if source[at] == "$":
        end = dollar_end(source, at, letters=True)
    elif source.startswith(("\\(", "\\["), at):
        end = bracketed_end(source, at, letters=True)
    else:
        return False
    if not end or end > state.posMax:
        return False
    if not silent:
        width = 1 if source[at] == "$" and source[at + 1] != "$" else 2
        token = state.push("formula", "math", 0)
        token.content, token.markup = source[at + width : end - width], source[at : at + width]
    state.pos = end
    return True


def _block(state: StateBlock, first: int, last: int, silent: bool) -> bool:  # noqa: FBT001
    if state.is_code_block(first):
        return False
    start = state.bMarks[first] + state.tShift[first]
    closer = CLOSERS.get(state.src[start : start + 2])
    if closer is None:
        return False
    lines = []
    for line in range(first, min(last, first + MAX_LINES)):
        begin = state.bMarks[line] + state.tShift[line] + (2 if line == first else 0)
        text = state.src[begin : state.eMarks[line]]
        if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            return False  # so ends the paragraph, the quotation or the list in which it began
        before, found, after = text.partition(closer)
        lines.append(before)
        if not found:
            continue
        if after.strip():
            return False
        if not silent:
            token = state.push("formula_block", "math", 0)
            token.block, token.markup, token.map = True, closer, [first, line + 1]
            token.content = "\n".join(lines)
            state.line = line + 1
        return True
    return False


def _shown(
    _self: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    _options: object,
    env: MutableMapping[str, Any],
) -> str:
    token = tokens[index]
    block = token.type == "formula_block"
    env["formulas"] = env.get("formulas", 0) + len(token.content)
    drawn = ""
    if env["formulas"] <= MAX_CHARACTERS:
        drawn = mathml(token.content.strip(), block=token.markup not in {"$", "\\("})
    if not drawn:
        code = f"<code>{escape(token.content.strip())}</code>"
        return f"<p>{code}</p>\n" if block else code
    if block:
        return f'<div class="formula">{drawn}</div>\n'
    kind = "formula long" if len(token.content) > LONG else "formula"
    return f'<span class="{kind}">{drawn}</span>'
