"""The gateway's own sentences during and after work, in the language of a person.

Tools and plugins write English; a sentence that is listed in ``core.tools.sentences`` is translated
by the catalogues (decision 200), any other (a summary, a third party's line) stays unchanged.
``{0}`` stands for a variable part, ``{1}`` and ``{2}`` for numbers.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache

from django.utils.formats import number_format
from django.utils.translation import gettext

from core.lib.interface_language import spoken
from core.tools.sentences import SENTENCES as SENTENCES
from core.tools.sentences import TOOL_NAMES

# The languages besides English: Chinese, Spanish, German, French, Japanese.
ORDER = ("zh", "es", "de", "fr", "ja")
# A number as English writes it: 100,000 or $5.00.
ENGLISH = re.compile(r"(\$?)(\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<=\$)\d+\.\d+)")
SLOT = re.compile(r"\{[012]\}")
VARIES = {
    r"\{0\}": "(?P<v0>.+)",
    r"\{1\}": r"(?P<v1>\d+)",
    r"\{2\}": r"(?P<v2>\d+)(?: slides?)?",
}

_added: dict[str, Mapping[str, str]] = {}


def add(sentences: Mapping[str, Mapping[str, str]]) -> None:
    """Add the sentences of an installed tool, by language; those of the gateway win.

    A language that is left out gets the English. Raises ValueError for an unknown language, and for
    other variable parts than the English has.
    """
    for english, others in sentences.items():
        if unknown := sorted(set(others) - set(ORDER)):
            raise ValueError(
                f"The languages of a sentence are {', '.join(ORDER)}, not {unknown[0]}."
            )
        for sentence in (english, *others.values()):
            rest = SLOT.sub("", sentence)
            if slots(sentence) != slots(english) or "{" in rest or "}" in rest:
                raise ValueError(
                    f"“{sentence[:80]}” has other variable parts than “{english[:80]}”."
                )
    _added.update({name: each for name, each in sentences.items() if name not in SENTENCES})
    patterns.cache_clear()


def slots(sentence: str) -> list[str]:
    """Return the variable parts of a sentence, in order of their numbers."""
    return sorted(SLOT.findall(sentence))


def is_translated(text: str, languages: Iterable[str] = ORDER) -> bool:
    """Return whether a text is a sentence that is listed, and is another one in each language."""
    return all(in_language(text, language) != text for language in languages)


def in_language(text: str, language: str) -> str:
    """Return ``text`` in ``language``, a tag such as ``de`` or ``zh-CN``, if it is listed here."""
    language = language.partition("-")[0]
    if language not in ORDER or not text:
        return text
    for pattern, english in patterns():
        found = pattern.fullmatch(text)
        if found is not None:
            parts = found.groupdict()
            with spoken(language):
                said = {name: spoken_part(part) for name, part in parts.items()}
            return translated(english, language).format(*map(said.get, ("v0", "v1", "v2")))
    return text


def name_of(tool: str) -> str:
    """Return the name of a tool for people, in English: of our own in plain words."""
    return TOOL_NAMES.get(tool, tool)


def spoken_part(text: str) -> str:
    """Return a variable part in the active language: a number, or names of our own tools."""
    names = text[1:-1].split(", ")
    if text[:1] == "“" and any(name in TOOL_NAMES.values() for name in names):
        known = [gettext(name) if name in TOOL_NAMES.values() else name for name in names]
        return f"“{', '.join(known)}”"
    return as_number(text)


def as_number(text: str) -> str:
    """Return a text as the active language writes it if it is a number; else unchanged."""
    found = ENGLISH.fullmatch(text)
    if found is None:
        return text
    return found[1] + number_format(found[2].replace(",", ""), force_grouping=True)


def translated(english: str, language: str) -> str:
    """Return a sentence of the list; one of an installed tool in the tool's words."""
    if english in _added:
        return _added[english].get(language, english)
    with spoken(language):
        return gettext(english)


@cache
def patterns() -> list[tuple[re.Pattern[str], str]]:
    """Return the English sentences as patterns; variable parts are on one line."""
    made = []
    for english in {**_added, **dict.fromkeys(SENTENCES)}:
        pattern = re.escape(english)
        for name, varying in VARIES.items():
            pattern = pattern.replace(name, varying)
        made.append((re.compile(pattern), english))
    return made
