"""Public ids as arguments of commands."""

import re
from argparse import ArgumentParser
from typing import Any

DASHED_ID = re.compile(r"-[A-Za-z0-9_-]{21}", re.ASCII)


def accept_public_ids(parser: ArgumentParser) -> None:
    """Make ``parser`` read an id that begins with a dash, as one in 64 does, as no option: also one
    that begins like an option (``-v…``).

    argparse has no public setting for it.
    """
    parse: Any = parser._parse_optional  # noqa: SLF001

    def parse_others(text: str) -> Any:
        return None if DASHED_ID.fullmatch(text) else parse(text)

    parser._parse_optional = parse_others  # type: ignore[assignment,method-assign]  # noqa: SLF001
