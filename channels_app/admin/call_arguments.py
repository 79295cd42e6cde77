"""Arguments of a tool's call for people: readable JSON, and JSON that a person has edited."""

import json
import unicodedata

from django.conf import settings

from channels_app.asgi import strict_json
from channels_app.tool_requests.deciding import LONGEST_ARGUMENTS
from core.lib.text import HIDDEN, UNSEEN, visible


class ArgumentsError(ValueError):
    """Edited arguments that no tool can take; the text is for the person who edited them."""


def readable(arguments: str, limit: int) -> tuple[str, bool]:
    """Return the JSON text ``arguments`` indented, at most ``limit`` characters of it, and whether
    that is all.

    Invisible characters are escapes of JSON, so that the text stays the same JSON: it must not
    reorder or hide what is decided about. A text that is no JSON is shown as it is.
    """
    try:
        text = json.dumps(json.loads(arguments or "{}"), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return visible(arguments[:limit]), len(arguments) <= limit
    return escaped(text[:limit]), len(text) <= limit


def escaped(text: str) -> str:
    """Return JSON text with every invisible character but line ends as an escape."""
    text = HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)
    return "".join(
        json.dumps(each)[1:-1] if each != "\n" and unicodedata.category(each) in UNSEEN else each
        for each in text
    )


def edited(text: str) -> str:
    """Return the JSON object that a person wrote, as compact JSON. Raises ArgumentsError."""
    if len(text) > LONGEST_ARGUMENTS:
        raise ArgumentsError(f"The arguments are longer than {LONGEST_ARGUMENTS:,} characters.")
    try:
        value = strict_json.parse(
            text.encode(errors="surrogatepass"), max_depth=settings.MAX_JSON_DEPTH
        )
    except strict_json.BadJSONError as error:
        problem = f"{error.field} {error}" if error.field else str(error)
        problem = problem.replace("the body", "the text")
        raise ArgumentsError(f"These are no arguments: {problem}.") from error
    if not isinstance(value, dict):
        raise ArgumentsError("The arguments must be a JSON object: {…}.")
    return json.dumps(value, ensure_ascii=False)
