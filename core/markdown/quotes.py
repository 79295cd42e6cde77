"""Quotes in channels that only support a marker before each line."""

from .spans import Span, insert


def quoted(text: str, spans: list[Span], *, nested: bool) -> tuple[str, list[Span]]:
    """Put ``> `` before every line of the quotes; code in them keeps its lines.

    With ``nested``, a quote in a quote has it twice.
    """
    quotes = [span for span in spans if span.kind == "quote"]
    if not quotes:
        return text, spans
    code = {
        at
        for span in spans
        if span.kind == "pre"
        for at in range(span.start + 1, span.end)
        if text[at - 1] == "\n"
    }
    depths: dict[int, int] = {}
    for quote in quotes:
        at = quote.start
        while at >= 0 and at < quote.end:
            if at not in code:
                depths[at] = depths.get(at, 0) + 1
            at = text.find("\n", at, quote.end) + 1 or -1
    pieces = [(at, "> " * (depth if nested else 1)) for at, depth in sorted(depths.items())]
    return insert(text, spans, pieces)
