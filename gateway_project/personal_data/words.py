"""The words by which a person is known: names, addresses, names of keys."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import Q

from allowlist.models import ApiKey, UnknownRequest
from core.lib.text import one_line, visible_line
from core.models import ChannelIdentity, InboundMessage, User

BLANK = "[forgotten]"
# Below these lengths a word is part of too many others; rows that are the person's own are known
# by its number.
SHORTEST, SHORTEST_IN_OTHER_SCRIPTS = 3, 2
# Lengths to which names are cut in lines of the audit and of notices.
CUTS = (40, 60, 64, 100, 200)
AT_ONCE = 200


class Words:
    """Finds and blanks words that stand by themselves, whatever their case."""

    def __init__(self, words: Iterable[str]) -> None:
        every = sorted({form for word in words for form in forms(word)}, key=len, reverse=True)
        joined = "|".join(re.escape(each) for each in every)
        # Without words it never matches.
        pattern = rf"(?<!\w)(?:{joined})(?!\w)" if joined else "(?!)"
        self._pattern = re.compile(pattern, re.IGNORECASE)

    def are_in(self, text: str) -> bool:
        return self._pattern.search(text) is not None

    def are_in_any(self, value: Any) -> bool:
        """Return whether a text of a JSON value has one; the names in it are ours."""
        return bool(self.blanked_in(value) != value)

    def blanked(self, text: str) -> str:
        return self._pattern.sub(BLANK, text)

    def blanked_in(self, value: Any) -> Any:
        """Return a JSON value with the words blanked in all its texts."""
        return with_texts(value, self.blanked)


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with its texts changed; its names and numbers stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: with_texts(each, change) for name, each in value.items()}
    return [with_texts(each, change) for each in value] if isinstance(value, list) else value


def forms(word: str) -> set[str]:
    """Return how a name is written: as it is, on one line, with visible marks, and cut."""
    known = {word.strip(), one_line(word, 400), visible_line(word, 400)}
    known |= {each[: cut - 1] for each in known for cut in CUTS if len(each) > cut}
    return {each for each in known if len(each) >= shortest(each)}


def shortest(word: str) -> int:
    return SHORTEST if word.isascii() else SHORTEST_IN_OTHER_SCRIPTS


def of(user: User) -> Words:
    """Return the words of a person, while their rows are there."""
    found = {user.username, user.first_name, user.last_name, user.get_full_name()}
    found |= {user.display_name, user.email}
    for rows, fields in (
        (ChannelIdentity.objects.filter(user=user), ("value",)),
        (InboundMessage.objects.filter(user=user), ("sender", "sender_name")),
        (UnknownRequest.objects.filter(granted_user=user), ("sender", "sender_name")),
        (ApiKey.objects.filter(user=user), ("name", "prefix")),
    ):
        for field in fields:
            found |= set(rows.order_by().values_list(field, flat=True).distinct())
    return Words(found)


def senders(user: User) -> list[Q]:
    """Return conditions, for rows with ``account``, ``kind`` and ``sender``, of the addresses from
    which a person speaks or spoke. Each is small enough for one query.
    """
    listed = ChannelIdentity.objects.filter(user=user)
    found = set(listed.values_list("account_id", "kind", "value"))
    rows = InboundMessage.objects.filter(user=user).exclude(sender="").order_by()
    found |= set(rows.values_list("account_id", "kind", "sender").distinct())
    places: dict[tuple[int | None, str], list[str]] = {}
    for account, kind, value in sorted(found, key=str):
        places.setdefault((account, kind), []).append(value)
    return [
        Q(kind=kind, sender__in=values[start : start + AT_ONCE])
        & (Q(account_id=account) if account else Q())
        for (account, kind), values in places.items()
        for start in range(0, len(values), AT_ONCE)
    ]
