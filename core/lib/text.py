"""Texts that every database and every channel can hold."""

import re
import unicodedata

# Unicode categories of invisible characters.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that show nothing (fillers of Hangul, inherent vowels of Khmer), and selectors
# of a variation behind another one: they can hold any text.
SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
HIDDEN = re.compile(f"[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]|(?<=[{SELECTORS}])[{SELECTORS}]")
# They join emoji, and shape letters of Arabic and Indian scripts; elsewhere they only hide.
JOINERS = "\u200c\u200d"
LETTERS = "[\u0600-\u0dff]"
EMOJI = "[\ufe0f\u2600-\u2bff\U0001f000-\U0001faff]"
NEXT_EMOJI = "[\u2190-\u2bff\U0001f000-\U0001faff]"
USED_JOINER = f"(?<={LETTERS})[{JOINERS}](?={LETTERS})|(?<={EMOJI})\u200d(?={NEXT_EMOJI})"
STRAY_JOINER = re.compile(f"(?!{USED_JOINER})[{JOINERS}]")
CODE = re.compile("⟨U\\+[0-9A-F]{4,6}⟩")
# In a quoted text it would end the quote, or begin another one.
QUOTE_TAG = re.compile(r"<(?=\s*+/?\s*+quoted)", re.IGNORECASE)
QUOTE_BEGINS, QUOTE_ENDS = re.compile(r'<quoted sender="[^"]*">\n'), "\n</quoted>"
SENDER = 200  # characters
# NUL is refused by PostgreSQL; lone surrogates cannot be encoded.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
OF_FILE_NAME = re.compile(r"[\w\s.-]")
OF_EMOJI = re.compile("[\ufe00-\ufe0f\u20e3]")


def clean(text: str) -> str:
    """Return ``text`` without NUL and with lone surrogates replaced by U+FFFD."""
    if text.isascii() and "\x00" not in text:  # fast, also for a picture of 10 MB in base64
        return text
    return UNSTORABLE.sub(lambda match: "" if match[0] == "\x00" else "\ufffd", text)


def is_clean(text: str) -> bool:
    """Return whether :func:`clean` would change nothing."""
    if text.isascii():
        return "\x00" not in text
    return UNSTORABLE.search(text) is None


def is_of_file_name(character: str) -> bool:
    """Return whether the name of a file made of a title keeps a character: as a letter, also its
    marks, which write the vowels of Hindi and Thai.
    """
    is_mark = unicodedata.category(character)[0] == "M" and not OF_EMOJI.match(character)
    return is_mark or OF_FILE_NAME.match(character) is not None


def one_line(text: str, limit: int) -> str:
    """Return ``text`` on one line without invisible characters, at most ``limit`` characters."""
    shown = HIDDEN.sub(" ", clean(text))
    seen = "".join(c if c.isprintable() or c in JOINERS else " " for c in shown)
    flat = " ".join(STRAY_JOINER.sub(" ", seen).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip(JOINERS) + "…"


def in_ascii(text: str) -> str:
    """Return ``text`` with other characters than ASCII as escapes, as it is repeated in errors."""
    return text.encode("ascii", "backslashreplace").decode()


def is_number(text: str, digits: int = 18) -> bool:
    """Return whether a text is a whole number of at most so many digits (ASCII), and no more."""
    return text.isascii() and text.isdigit() and len(text) <= digits


def visible(text: str) -> str:
    """Return ``text`` with every invisible character written as its code, for example ⟨U+202E⟩.

    Line ends and tabs stay; untrusted text must not reorder or hide what the owner reads.
    """
    text = HIDDEN.sub(lambda found: code_of(found[0]), text)
    if text.replace("\n", "").replace("\t", "").isprintable():  # in C: a page has many such texts
        return text
    return "".join(
        code_of(character)
        if unicodedata.category(character) in UNSEEN and character not in "\n\t"
        else character
        for character in text
    )


def code_of(character: str) -> str:
    """Return a character as its code, of which CODE is the form."""
    return f"⟨U+{ord(character):04X}⟩"


def visible_line(text: str, limit: int = 200) -> str:
    """Return ``visible`` on one line, of at most ``limit`` characters of ``text``."""
    cut = text[:limit] + ("…" if len(text) > limit else "")
    return visible(cut.replace("\t", " ").replace("\r\n", "\n").replace("\n", " ⏎ "))


def quote(text: str, *, sender: str) -> str:
    """Return what ``sender`` said as the assistant gets it: marked, and unable to end its mark."""
    # No entities but that: a model would repeat those of O'Brien and of Smith & Co.
    name = one_line(sender, SENDER).replace('"', "'")
    name, said = (QUOTE_TAG.sub("&lt;", each) for each in (name, text))
    return f'<quoted sender="{name}">\n{said}{QUOTE_ENDS}'


def unquoted(text: str) -> str:
    """Return a message without what :func:`quote` has marked: the words of its sender."""
    *before, last = text.split(QUOTE_ENDS)
    return "".join([*(QUOTE_BEGINS.split(each, maxsplit=1)[0] for each in before), last])


def unmarked(text: str) -> str:
    """Return a message with what it quotes, without the marks of :func:`quote`."""
    return QUOTE_BEGINS.sub("", text).replace(QUOTE_ENDS, "")


def quoted_words(text: str) -> str:
    """Return what :func:`quote` has marked in a message, without the marks; empty for nothing."""
    *marked, _ = text.split(QUOTE_ENDS)
    return "\n\n".join(QUOTE_BEGINS.split(each, maxsplit=1)[-1] for each in marked)


def shown_words(text: str) -> str:
    """Return a message without what it quotes; where it says nothing else, that without marks."""
    return unquoted(text).strip() or quoted_words(text)


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its English noun: ``1 file``, ``2 files``; ``several``: the plural."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def as_sentence(reason: object) -> str:
    """Return a reason such as "there is no file" with a capital letter and a full stop."""
    text = str(reason)
    return f"{text[:1].upper()}{text[1:]}."
