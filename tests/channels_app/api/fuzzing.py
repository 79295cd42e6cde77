"""Hooks of the fuzzer: JSON has rules for every body that no schema tells."""

from typing import Any
from urllib.parse import unquote

import schemathesis

from channels_app.asgi import strict_json

NO_SIGN = "\ufffd"  # of bytes that are no UTF-8
ADDRESSES = ("http://", "https://")


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Skip bodies that no database can store, which every endpoint refuses, pictures with made-up
    addresses, and names in a path with a percent sign, which the fuzzer decodes once too often: to
    another sign, to a control character, or to none at all.
    """
    del context
    names = [unquote(str(each)) for each in (case.path_parameters or {}).values()]
    if any({"%", NO_SIGN} & set(each) or not each.isprintable() for each in names):
        return False
    try:
        strict_json.check_storable(case.body)
    except strict_json.BadJSONError:
        return False
    return not names_addresses(case.body)


def names_addresses(body: Any) -> bool:
    """Return whether ``body`` holds the address of a picture."""
    images = body.get("images") if isinstance(body, dict) else None
    return any(
        str(each.get("url") if isinstance(each, dict) else each).startswith(ADDRESSES)
        for each in (images if isinstance(images, list) else ())
    )
