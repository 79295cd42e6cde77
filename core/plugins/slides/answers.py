"""Parse a model's answer leniently: weak models break off, repeat, stay empty."""

import json
import re
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from typing import Any
from unicodedata import decimal

from core.plugins.base import PluginError, PluginHost
from core.plugins.slides.deck import Point
from core.plugins.slides.texts import cut, is_repeat, is_stutter, likeness, terms, tidy, title

TEXT_LIMIT, LEAD_LIMIT = 220, 44
# The bounds of the schemas: a grammar cuts what is longer in the middle of a word.
SENTENCE_MOST, LABEL_MOST = 170, 36
ENDS = tuple(".!?。！？؟…")
FIELD = re.compile(r'"(?P<name>label|text|title)"\s*:\s*"(?P<value>(?:[^"\\]|\\.){1,400})"')
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
OTHER_DIGIT = re.compile(r"(?![0-9])\d")  # as of Arabic, of India, of full width
SPACED = re.compile(r"(?<![\d.,])\d{1,3}(?:[ ’'\u00a0\u2009\u202f]\d{3})+(?!\d)")
FILLER = re.compile(
    r"^(?:\.+|…|n/?a|none|null|string|text|label|title|point|bullet|slide|"
    r"placeholder|left|right|lorem ipsum.*|todo|example)"
    r"[\s\d.:…]*$",
    re.IGNORECASE,
)


def record(**properties: Any) -> dict[str, Any]:
    """Return the JSON schema of an object with all of ``properties`` and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def array(items: Mapping[str, Any], least: int, most: int) -> dict[str, Any]:
    """Return the JSON schema of a list of ``least`` to ``most`` ``items``."""
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def string(most: int) -> dict[str, Any]:
    """Return the JSON schema of a text of at most ``most`` characters."""
    return {"type": "string", "maxLength": most}


async def ask(
    host: PluginHost, prompt: str, schema: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """Return the model's answer as an object; an empty one when there is none. Cancelled passes."""
    try:
        return parsed(await host.ask(prompt, schema=schema, **more))
    except PluginError:
        return {}


def parsed(answer: str) -> dict[str, Any]:
    """Return the object in ``answer``; the complete fields of one that broke off, or is no JSON."""
    text = answer[max(0, answer.find("{")) :]
    try:
        found, _ = json.JSONDecoder(strict=False).raw_decode(text)
    except json.JSONDecodeError as error:
        is_cut = error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())
        found = begun(text) if is_cut else saved(answer)
    except RecursionError:
        return {}
    return found if isinstance(found, dict) else {}


def begun(text: str) -> Any:
    """Return the object that begins a text, as far as it goes."""
    from pydantic_core import from_json  # noqa: PLC0415 - 3 MB that long tasks alone need

    try:
        return from_json(text, allow_partial=True)
    except ValueError:
        return saved(text)


def saved(answer: str) -> dict[str, Any]:
    """Return the complete fields of an answer that is no JSON: weak models forget to escape."""
    points: list[dict[str, str]] = []
    whole: dict[str, Any] = {"points": points}
    for match in FIELD.finditer(answer):
        value = match["value"].replace('\\"', '"').replace("\\n", " ")
        if match["name"] == "text" and points and "text" not in points[-1]:
            points[-1]["text"] = value
        elif match["name"] == "title":
            whole.setdefault("title", value)
        else:
            points.append({match["name"]: value})
    return whole


def list_of(value: object) -> list[Any]:
    """Return a field that is a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def text_of(value: object, limit: int, most: int = 0) -> str:
    """Return a field as clean text; "" for an empty one.

    ``most``: the schema's own limit; text of that length was cut within a word by the grammar.
    """
    text = tidy(value, limit)
    if most and isinstance(value, str) and len(value) >= most and text[-1:] not in ENDS:
        text = cut(text + " ", max(2, len(text)))
    return "" if says_nothing(text) else text


def says_nothing(text: str) -> bool:
    """Return whether ``text`` has no word, repeats the same words, or only repeats the form's."""
    letters = sum(character.isalpha() for character in text)
    return letters < 2 or is_stutter(text) or FILLER.match(text) is not None


def heading_of(value: object, limit: int) -> str:
    """Return a field as a heading; "" for what says nothing."""
    text = title(value, limit)
    return "" if says_nothing(text) else text


def texts_of(value: object, most: int) -> list[str]:
    """Return a list of strings (or of objects with a "text"), cleaned, without repeats."""
    found: list[str] = []
    for entry in list_of(value):
        raw = entry.get("text") if isinstance(entry, dict) else entry
        text = text_of(raw, SENTENCE_MOST, SENTENCE_MOST)
        if text and not is_repeat(text, found):
            found.append(text)
    return found[:most]


def points_of(
    value: object, *, heading: str, earlier: Iterable[str], numbers: Set[str] | None
) -> list[Point]:
    """Return the usable points of a slide under ``heading``.

    Dropped: empty points, stutters, repeats of ``earlier``, of others or of the heading, and, where
    ``numbers`` holds the numbers of the source, points with numbers not among them.
    """
    said = list(earlier)
    leads: list[str] = []
    found: list[Point] = []
    for entry in list_of(value):
        raw = entry if isinstance(entry, dict) else {"text": entry}
        text = text_of(raw.get("text"), TEXT_LIMIT, SENTENCE_MOST)
        lead = lead_of(raw.get("label"), text, [heading, *leads])
        whole = f"{lead} {text}".strip()
        if not whole or is_repeat(whole, said) or invented(whole, numbers):
            continue
        if terms(whole) <= terms(heading):
            continue
        said.append(whole)
        leads += [lead] if lead else []
        found.append(Point(text, lead) if text else Point(lead))
    return found


def lead_of(value: object, text: str, taken: Iterable[str]) -> str:
    """Return a label as the lead of ``text``; "" when it is cut, taken, or repeated by the text."""
    lead = heading_of(value, LEAD_LIMIT)
    cut_off = isinstance(value, str) and len(value) >= LABEL_MOST
    repeats = any(terms(lead) <= terms(other) for other in taken)
    return "" if cut_off or repeats or (text and likeness(lead, text[:60]) == 1) else lead


def numbers_of(text: str) -> set[str]:
    """Return the numbers of a text as ASCII digits without spaces."""
    known = OTHER_DIGIT.sub(lambda found: str(decimal(found[0])), text)
    found = [*NUMBER.findall(known), *SPACED.findall(known)]
    return {re.sub(r"\D", "", number) for number in found}


@lru_cache(maxsize=2)
def numbers_of_source(text: str) -> frozenset[str]:
    """Return the numbers of a source, which is asked for each slide and may be a book."""
    return frozenset(numbers_of(text))


def invented(text: str, numbers: Set[str] | None) -> bool:
    """Return whether ``text`` has a number of two digits or more that the source does not have."""
    if numbers is None:
        return False
    without = SPACED.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    return any(len(number) > 1 and number not in numbers for number in numbers_of(without))
