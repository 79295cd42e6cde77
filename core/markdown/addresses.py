"""The addresses of links and images: on their text, after it, or in notes at the end."""

from operator import itemgetter

from . import links
from .emphasis import is_cjk
from .looks import Look
from .spans import Inline, Span, insert

_WORD = 20  # characters of the rest of a word
_OPENING = frozenset("([{")


class Addresses:
    """Place the addresses of one document according to its look."""

    def __init__(self, look: Look, *, in_notes: bool) -> None:
        self.look = look
        self.in_notes = in_notes
        self.written = 0  # addresses behind their text
        self.interruptions = 0  # addresses before more text on their line
        self.numbers: dict[str, int] = {}
        self.starts: set[int] = set()  # of the links and images of one inline text

    def too_many(self) -> bool:
        """Return whether a text has so many addresses within sentences that notes read better."""
        return self.interruptions > 1 or (self.interruptions == 1 and self.written > 3)

    def notes(self) -> str:
        """Return the numbered notes, a line each."""
        return "\n".join(f"[{number}] {address}" for address, number in self.numbers.items())

    def apply(self, inline: Inline) -> tuple[str, list[Span]]:
        """Return the inline text with the addresses of its links and images in their places."""
        pieces: list[tuple[int, str]] = []
        spans: list[Span] = []
        linked = ("link", "anchor", "image")
        self.starts = {span.start for span in inline.spans if span.kind in linked}
        until = 0  # end of the last link: an image inside it shows the link's address only
        for span in sorted(
            inline.spans,
            key=lambda each: (each.start, each.kind not in ("link", "anchor"), -each.end),
        ):
            if span.kind in ("link", "anchor"):
                until = max(until, span.end)
                self._link(inline.text, span, spans, pieces)
            elif span.kind == "image":
                inside = span.end <= until and until > 0
                self._image(inline.text, span, spans, pieces, inside=inside)
            else:
                spans.append(span)
        pieces.sort(key=itemgetter(0))
        return insert(inline.text, spans, pieces)

    def _link(
        self, text: str, span: Span, spans: list[Span], pieces: list[tuple[int, str]]
    ) -> None:
        address = None if self.look.links_as_text else links.telegram_address(span.value)
        if address is not None:
            spans.append(Span("link", span.start, span.end, address))
            if not links.rewritten(address) or text[span.start : span.end] in address:
                return
        written = self._address(span.value)
        if span.kind == "anchor":
            return
        if not self.look.links_as_text and "//" not in span.value and "@" not in written:
            return  # relative addresses do not work in a chat
        if written and text[span.start : span.end].strip().rstrip("/") != written.rstrip("/"):
            end = self._end_of_word(text, span.end)
            pieces.append((end, self._written(text, end, written)))

    def _end_of_word(self, text: str, at: int) -> int:
        """Return the end of the word that continues after a link: ``[MITM](…)ed``."""
        if not text[at - 1 : at].isalnum():
            return at
        end = at
        while end < min(len(text), at + _WORD) and end not in self.starts:
            if not text[end].isalnum() or is_cjk(text[end]):
                break
            end += 1
        return end

    def _address(self, url: str) -> str:
        return links.written_address(url, ticks=not self.look.fenced)

    def _written(self, text: str, end: int, address: str) -> str:
        """Return an address after its text, or the number of its note, apart from what follows."""
        self.written += 1
        following = text[end : end + 1]
        if following.strip("\n"):
            self.interruptions += 1
        is_word = following.isalnum() and (end in self.starts or not is_cjk(following))
        space = " " if is_word or following in _OPENING else ""
        if not self.in_notes:
            return f" ({address}){space}"
        return f" [{self.numbers.setdefault(address, len(self.numbers) + 1)}]{space}"

    def _image(
        self,
        text: str,
        span: Span,
        spans: list[Span],
        pieces: list[tuple[int, str]],
        *,
        inside: bool,
    ) -> None:
        look = self.look
        written = "" if inside else self._address(span.value)
        address = links.telegram_address(written) if written else None
        if span.end == span.start:
            self._alone(text, span.start, written, pieces)
            return
        if look.image:
            pieces.append((span.start, look.image))
        if look.links_as_text and written:
            pieces.append((span.end, self._written(text, span.end, written)))
        elif address is not None:
            spans.append(Span("link", span.start, span.end, address))

    def _alone(self, text: str, at: int, written: str, pieces: list[tuple[int, str]]) -> None:
        """Write the address of an image without a description, separated from its neighbours."""
        shown = f"{self.look.image} {written}" if self.look.image and written else written
        shown = shown or self.look.image
        if pieces and pieces[-1][0] == at:
            pieces[-1] = (at, pieces[-1][1].rstrip())
            shown = f" {shown}"
        elif shown and at > 0 and text[at - 1].isalnum():
            shown = f" {shown}"
        if shown and text[at : at + 1].isalnum():
            shown += " "
        pieces.append((at, shown))
