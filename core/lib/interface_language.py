"""The languages of the interface, whose texts are in ``locale/`` (decision 200)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.utils import translation
from django.utils.translation.trans_real import parse_accept_lang_header

P = ParamSpec("P")
T = TypeVar("T")

TAG_CHARACTERS = 35  # the longest tag that BCP 47 makes systems keep
HEADER_CHARACTERS = 500


def of_tag(tag: str) -> str:
    """Return the interface's language for a tag such as ``de_AT``, ``zh-CN``; empty: none."""
    wanted = tag.strip().replace("_", "-").lower()[:TAG_CHARACTERS]
    if not wanted:
        return ""
    try:
        return str(translation.get_supported_language_variant(wanted))
    except LookupError:
        return ""


def of_header(header: str) -> str:
    """Return the first available language of an ``Accept-Language`` header, else English."""
    for tag, _ in parse_accept_lang_header(header[:HEADER_CHARACTERS].lower()):
        found = of_tag(tag)
        if found:
            return found
    return settings.LANGUAGE_CODE


@contextmanager
def spoken(tag: str) -> Iterator[None]:
    """Make texts in the language of ``tag`` within the block; in English where none fits."""
    with translation.override(of_tag(tag) or settings.LANGUAGE_CODE):
        yield


def spoken_by(tag: str, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a call that makes texts in the language of ``tag``."""
    with spoken(tag):
        return call(*args, **kwargs)
