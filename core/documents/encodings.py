"""The text of a web page or of a file, in whatever encoding it is. Pure.

A page says in which encoding it is, and may be wrong; a file does not say it. UTF-8 has a form that
other text hardly ever has. The encodings of East Asia are known by the characters that most of such
a text consists of: any bytes may be valid in them, and "Müller" in Windows-1252 is "M黮ler" in
GB 18030.
"""

import codecs
import re
from collections.abc import Iterator

# The encodings of the web (encoding.spec.whatwg.org) as Python names them. Any other codec of
# Python is refused: some decode at the square of the length, or are no encodings of text.
NAMES = (
    "utf-8 gbk gb18030 gb2312 big5 big5hkscs euc_jp iso2022_jp shift_jis cp932 euc_kr cp949",
    "koi8-r koi8-u mac-roman ascii cp866 cp874 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256",
    "cp1257 cp1258 iso8859-1 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8",
    "iso8859-9 iso8859-10 iso8859-11 iso8859-13 iso8859-14 iso8859-15 iso8859-16",
)
WEB = frozenset(" ".join(NAMES).split())
# Browsers read the narrower ones as the wider, which pages use.
WIDER = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
    "big5": "big5hkscs",
}  # fmt: skip
LABEL = re.compile(r"[A-Za-z0-9_.:-]{1,40}")
META = re.compile(
    rb"""<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE
)
HEAD_BYTES = 4096
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
SAMPLE = 20_000  # bytes that are looked at, from the first one beyond ASCII on
BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
LONG_RUN = 3  # letters of a Cyrillic word; so many in a row are rare in Latin scripts
# Each encoding with its characters, the usual ones as a group, and their least share.
EAST_ASIAN = (
    ("cp932", rb"(\x82[\x9f-\xf1]|\x83[\x40-\x96])|[\x81-\x9f\xe0-\xfc].|[\xa1-\xdf]", 0.15),
    ("euc_jp", rb"([\xa4\xa5][\xa1-\xfe])|[\x80-\xff].", 0.15),
    ("cp949", rb"([\xb0-\xc8][\xa1-\xfe])|[\x80-\xff].", 0.95),
    ("gb18030", rb"([\xa1-\xa3\xb0-\xd7][\xa1-\xfe])|[\x80-\xff].", 0.5),
    ("big5", rb"([\xa1\xa4-\xc6][\x40-\x7e\xa1-\xfe])|[\x80-\xff].", 0.8),
)
# Most of the frequent Chinese characters have bytes of Korean syllables: a few prove nothing.
FEWEST_KOREAN = 12


def text_of(body: bytes, charset: str) -> str:
    """Return the text of a page. ``charset`` is the server's word, which may be wrong.

    The first encoding that fits is taken: the one of the byte order mark, the server's, the
    page's own, UTF-8. When none fits, bytes that do not decode are replaced.
    """
    if (marked := text_with_mark(body)) is not None:
        return marked
    own = META.search(body[:HEAD_BYTES])
    given = [charset, own[1].decode() if own is not None else ""]
    names = [name for each in given if (name := codec_of(each))]
    for name in (*names, "utf-8"):
        try:
            return body.decode(name)
        except UnicodeDecodeError:
            continue
    return body.decode(names[0], "replace") if names else text_of_file(body)


def codec_of(label: str) -> str:
    """Return Python's name of an encoding of the web; empty for any other."""
    if not LABEL.fullmatch(label):
        return ""
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return ""
    return WIDER.get(name, name) if name in WEB else ""


def text_of_file(data: bytes) -> str:
    """Return the text of a file; bytes that are no text in its encoding are replaced."""
    if (marked := text_with_mark(data)) is not None:
        return marked
    sample = sample_of(data)
    if is_utf8(sample):
        return data.decode("utf-8", "replace")
    for name in east_asian(sample):
        try:
            return data.decode(name)
        except UnicodeDecodeError:
            continue
    is_cyrillic = share_of_runs(sample, LONG_RUN) > 0.5
    return data.decode("cp1251" if is_cyrillic else "cp1252", "replace")


def text_with_mark(data: bytes) -> str | None:
    """Return the text behind a byte order mark; None where there is none."""
    for mark, name in MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    return None


def sample_of(data: bytes) -> bytes:
    """Return the beginning of what is not ASCII."""
    found = BEYOND_ASCII.search(data)
    return data[found.start() :][:SAMPLE] if found else b""


def is_utf8(sample: bytes) -> bool:
    """Return whether a text is in UTF-8, but for a few bytes: one that was cut, or a log."""
    text = sample.decode("utf-8", "replace")
    return text.count("\ufffd") * 4 <= sum(not each.isascii() for each in text)


def share_of_runs(sample: bytes, least: int) -> float:
    """Return the share of the bytes beyond ASCII that stand with ``least`` or more in a row."""
    runs = [len(run) for run in BEYOND_ASCII.findall(sample)]
    return sum(run for run in runs if run >= least) / max(1, sum(runs))


def east_asian(sample: bytes) -> Iterator[str]:
    """Yield the encodings of East Asia in which a text may be, the likeliest first."""
    if share_of_runs(sample, 2) <= 0.5:
        return  # an accent here and there
    for name, characters, least in EAST_ASIAN:
        found = [match[1] for match in re.finditer(characters, sample, re.DOTALL)]
        usual = len(found) - found.count(None)
        enough = FEWEST_KOREAN if name == "cp949" else 1
        if usual >= enough and usual >= len(found) * least:
            yield name


def paired(text: str) -> str:
    """Join the two halves of characters beyond U+FFFF; replace a lone half."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
