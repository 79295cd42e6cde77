"""The text of a web page, whatever its server says about its encoding. Pure."""

import codecs
import re

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
USUAL = "cp1252"  # a browser's, for a page that names none


def text_of(body: bytes, charset: str) -> str:
    """Return the text of a page. ``charset`` is the server's word, which may be wrong.

    The first encoding that fits is taken: the one of the byte order mark, the server's, the
    page's own, UTF-8. When none fits, bytes that do not decode are replaced.
    """
    for mark, name in MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    own = META.search(body[:HEAD_BYTES])
    given = [charset, own[1].decode() if own is not None else ""]
    names = [name for each in given if (name := codec_of(each))]
    for name in (*names, "utf-8"):
        try:
            return body.decode(name)
        except UnicodeDecodeError:
            continue
    return body.decode(next(iter(names), USUAL), "replace")


def codec_of(label: str) -> str:
    """Return Python's name of an encoding of the web; empty for any other."""
    if not LABEL.fullmatch(label):
        return ""
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return ""
    return WIDER.get(name, name) if name in WEB else ""
