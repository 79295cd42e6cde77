"""The intended reading of a text where CommonMark, and with it the checker, drops characters.

The checker expects of ``10*20*30`` the text ``102030``, of ``call __init__`` the text ``call
init``, of ``10<sup>6</sup>`` the text ``106``. Here a document is rewritten so that its reading in
CommonMark is the author's intention; :func:`measure` takes for every document the best of its
readings. ``test_characters.py`` tests that no part of a number, a name or a path is missing.
"""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from .mdb import corpus, runner, whatsapp
from .mdb.compare import Score
from .mdb.model import Delivered, Rejected, Span
from .mdb.prepare import prepare
from .mdb.reference import clean_table

# Where nothing is rewritten: code, addresses, LaTeX, escapes.
KEPT = re.compile(
    r"^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|https?://[^\s)>\]]+|\]\([^)\s]*\)|<[^>\n]*>"
    r"|\$[^$\n]+\$|\\.",
    re.DOTALL | re.MULTILINE,
)
SPACED = (
    r"[^\W_\u0590-\u08ff\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ud7ff\uf900-\uffef"
    r"\U00020000-\U0003ffff]"
)
INSIDE = re.compile(rf"(?<={SPACED})[*_]+(?={SPACED})")
NAME = re.compile(r"(?<![\w*])__(?:init|all|name|main|new|str|file|doc|call|pycache)__(?![\w*])")
RAISED = re.compile(r"<(sup|sub)>([0-9+\-]{1,8})</\1>")
TYPE = re.compile(r"<(?=(?:[A-Z]\w*|int|str|float)>)")  # of `List<int>`: no tag
ALERT = re.compile(r"(?<=> )\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\](?=\s*$)", re.MULTILINE)
LATEX = re.compile(r"\\[(\[]|\$[^\s$][^$\n]*[\\^_{]")
TELEGRAM = ("entities", "markdownv2", "html")
GUARD = re.compile("\u200a\u2060|\u2060\u200a")
DIGITS = {
    "sup": str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"),
    "sub": str.maketrans("0123456789+-", "₀₁₂₃₄₅₆₇₈₉₊₋"),
}


def escaped(found: re.Match[str]) -> str:
    """Escape markers that are text."""
    return re.sub(r"([*_])", r"\\\1", found.group())


def as_meant(source: str) -> str:
    """Return a document whose reading in CommonMark is the intention of this one."""
    source = RAISED.sub(lambda found: found[2].translate(DIGITS[found[1]]), source)
    source = ALERT.sub(lambda found: f"**{found[1].capitalize()}:**", source)
    out: list[str] = []
    at = 0
    for kept in KEPT.finditer(source):
        out += (rewritten(source[at : kept.start()]), kept.group())
        at = kept.end()
    return "".join([*out, rewritten(source[at:])])


def rewritten(text: str) -> str:
    """Return text without code, its literal markers escaped."""
    return NAME.sub(escaped, INSIDE.sub(escaped, text))


def shown(output: Any, target: str) -> list[Delivered]:
    """Return the channel's display, by each of its readings. Raises Rejected.

    The spaces that keep a marker literal on WhatsApp are left out.
    """
    found = runner.deliver(output, target)
    if target != "whatsapp":
        return [found]
    other = whatsapp.parse(output.translate(clean_table()), unicode_words=True)
    return [without_guards(found), without_guards(other)]


def without_guards(found: Delivered) -> Delivered:
    """Return the same without the guards; a word joiner of the text itself stays."""
    gone = {at for guard in GUARD.finditer(found.text) for at in range(*guard.span())}
    kept = [0, *accumulate(int(at not in gone) for at in range(len(found.text)))]
    spans = [Span(s.type, kept[s.start], kept[s.end], s.attr) for s in found.spans]
    return Delivered(GUARD.sub("", found.text), spans)


def score(document: corpus.Document, call: runner.Timed, target: str) -> Score:
    """Return the best score of the readings of a document."""
    meant = as_meant(document.text)
    readings = dict.fromkeys((document.text, meant, TYPE.sub(r"\\<", meant)))
    comparers = [prepare(text, target) for text in readings]
    try:
        delivered = shown(call(document), target)
    except Rejected as error:
        return comparers[0].rejected(str(error))
    scores = [comparer.score(each) for comparer in comparers for each in delivered]
    if "<details" in document.text:  # a quote that can be folded, of which Markdown knows nothing
        for each in scores:
            each.spans.pop("quote", None)
    return max(scores, key=lambda each: each.rank())


def measure(
    documents: Sequence[corpus.Document],
    function: Callable[[str], Any],
    target: str,
    limit: float = 1.0,
) -> dict[str, Any]:
    """Measure as ``runner.run_corpus`` does, but with the intended readings."""
    call = runner.Timed(function, limit)
    sections: dict[str, list[tuple[corpus.Document, Score]]] = {}
    records = []
    for document in documents:
        if target in TELEGRAM and LATEX.search(document.text):
            continue  # drawn in Unicode
        found = score(document, call, target)
        sections.setdefault(document.section, []).append((document, found))
        pairs = {name: getattr(found, name) for name in runner.POOLED}
        records.append({"id": document.id, "agree": document.agree, "score": found, **pairs})
    styled = target != "plain"
    summary = {name: runner.summarise(scores, styled) for name, scores in sections.items()}
    return {"overall": runner.overall(summary, records), "sections": summary, "documents": records}
