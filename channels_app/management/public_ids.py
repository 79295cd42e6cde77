"""Public ids as arguments of commands."""

import re
from argparse import ArgumentParser

DASHED_ID = re.compile(r"-[A-Za-z0-9_-]{21}$", re.ASCII)


def accept_public_ids(parser: ArgumentParser) -> None:
    """Make ``parser`` read an id that begins with a dash, as one in 64 does, as no option.

    argparse does so for negative numbers only, and has no public setting for other forms.
    """
    parser._negative_number_matcher = DASHED_ID  # noqa: SLF001
