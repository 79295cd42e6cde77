"""Rules for the parser of pages: one keeps as text what is text in every channel, one lets styles
begin and end beside CJK text as there ([T2]).
"""

import re
from collections.abc import Callable

from linkify_it import LinkifyIt
from linkify_it.main import Match
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, emphasis, strikethrough
from markdown_it.rules_inline.linkify import linkify

from .emphasis import Run
from .words import Literals, apostrophe, end_of_run

# The scheme of an address, as the library finds it, within the last characters of a text.
SCHEME = re.compile(r"(?:^|[^a-z0-9.+-])(https?|ftp)$", re.IGNORECASE)
BEFORE = 6
# The host of an address shows whether it is one.
HOST = re.compile(r"://[^\s/?#]*")
# Addresses hold no blanks, and signs of CJK texts only encoded.
WORD = re.compile("[^\\s‘-‟…\u3000-〿！-／：-＠［-｀｛-･]+")
IN_BRACKETS = 200  # characters of an address between two brackets or quotes


def plugin(parser: MarkdownIt) -> None:
    """Let a parser follow them: ``MarkdownIt().use(plugin)``."""
    parser.inline.ruler.before("escape", "literal", literal)
    parser.inline.ruler.at("linkify", address)
    parser.linkify = linker()
    for name, rule in (("emphasis", emphasis), ("strikethrough", strikethrough)):
        parser.inline.ruler.at(name, beside_cjk(rule.tokenize))


class Linker(LinkifyIt):  # type: ignore[misc]  # it has no types
    """The library's finder of addresses, in a time that grows with the text: from each address in a
    word, and each bracket in that, the library reads the rest of the word again.
    """

    def _on_compile(self) -> None:
        path = self.re["src_path"].replace(".)*", f".){{0,{IN_BRACKETS}}}")
        self.re["src_path"] = path.replace(".)+", f".){{1,{IN_BRACKETS}}}")

    def match(self, text: str) -> list[Match] | None:
        """Return the addresses in a text, in each word the next behind the last; None for none."""
        schema = re.compile(self.re["schema_search"], re.IGNORECASE)
        found: list[Match] = []
        for word in WORD.finditer(text):
            begun = schema.search(word[0])
            while begun is not None:
                begin, end = begun.start(2), begun.end()
                length = self.test_schema_at(word[0], begun[2], end)
                if length:
                    at, end = word.start(), end + length
                    found.append(self._create_match(text, begun[2], at + begin, at + end))
                # The last sign of an address may stand before the next one.
                begun = schema.search(word[0], end - 1 if length else end)
        return found or None

    def match_at_start(self, text: str) -> Match | None:
        """Return the address with which a text begins; None for none."""
        word = WORD.match(text)
        return super().match_at_start(word[0]) if word else None


def linker() -> LinkifyIt:
    """Return the finder of whole addresses, which end before CJK signs."""
    return Linker(options={"fuzzy_email": False, "fuzzy_link": False})


def beside_cjk(
    tokenize: Callable[[StateInline, bool], bool],
) -> Callable[[StateInline, bool], bool]:
    """Return the library's rule for markers, whose styles also open and close as in
    :mod:`core.markdown.emphasis`: CommonMark leaves ``**注意：**请`` as it is.
    """

    def rule(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the library's
        start, known = state.pos, len(state.delimiters)
        found = tokenize(state, silent)
        if new := state.delimiters[known:]:
            run = Run(state.src[start], start, state.pos, state.src)
            for each in new:
                each.open, each.close = each.open or run.opens, each.close or run.closes
        return found

    return rule


def address(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Make a link of a bare address. The library reads all text before each ``://`` again, also
    where it makes no link then.
    """
    at, links = state.pos, state.md.linkify
    host = HOST.match(state.src, at)
    found = SCHEME.search(state.pending[-BEFORE:]) if host else None
    if host is None or found is None or links is None:
        return False
    link = links.match_at_start(found[1] + host[0])
    if link is None or not state.md.validateLink(state.md.normalizeLink(link.url)):
        return False
    return linkify(state, silent)


def literal(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Keep ``10*20*30``, ``__init__.py`` and ``can`t``."""
    end = end_of_literal(state, state.pos)
    if not end or end > state.posMax:
        return False
    if not silent:
        state.append_pending(state.src[state.pos : end])
    state.pos = end
    return True


def end_of_literal(state: StateInline, at: int) -> int:
    """Return the end of the special characters at ``at`` that are no Markdown, or 0."""
    source = state.src
    char = source[at]
    if char == "`":
        return at + 1 if apostrophe(source, at) else 0
    if char not in "*_\\":
        return 0
    known: dict[str, Literals] = state.env.setdefault("literals", {})
    literals = known.setdefault(source, Literals(source))
    if char == "\\":
        return literals.backslash_end(at)
    end = literals.marker_end(at)
    if end:
        return end
    end = end_of_run(source, at)
    return end if Run(char, at, end, source).multiplies else 0
