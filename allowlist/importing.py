"""Read a ``user.yml``: a list of users with ``name``, ``id``, ``im``, ``email``, ``phone``.

A list may be under ``users:`` or be the whole file. An ``im`` entry may name its channel
(``telegram:42``). Every value is read as text: YAML would turn ``0012`` into 10 and ``1_2`` into
12.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

import yaml

from allowlist import audit
from allowlist.identities import InvalidIdentity, normalise
from core.database import transactions
from core.models import ChannelIdentity, User

KINDS = tuple(ChannelIdentity.Kind.values)
USERNAME = re.compile(r"[^\w.@+-]+")


class InvalidFile(ValueError):
    """The file is not a list of users; the text names the place."""


class TextLoader(yaml.SafeLoader):
    """Build lists, mappings and strings only."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


@dataclass(frozen=True, slots=True)
class Listed:
    """One normalised address of a user; no channel: any channel of that kind."""

    kind: str
    channel: str
    value: str


@dataclass(slots=True)
class Person:
    """One user of the file."""

    username: str
    name: str
    identities: list[Listed] = field(default_factory=list)

    @property
    def open_kinds(self) -> list[str]:
        """Return the kinds with an empty list, which in such a file means everyone."""
        return [kind for kind in KINDS if all(each.kind != kind for each in self.identities)]


@dataclass(frozen=True, slots=True)
class Change:
    """A change made by an import."""

    person: Person
    new: bool
    added: list[Listed]


def parse(text: str, *, channels: Collection[str]) -> list[Person]:
    """Return the users of a ``user.yml``; ``channels`` are the allowed prefixes of ``im`` entries.

    Raises ``InvalidFile``, naming the user and the field.
    """
    try:
        content = TextLoader(text).get_single_data()
    except yaml.YAMLError as error:
        raise InvalidFile(f"this is not YAML: {error}") from error
    users = content.get("users") if isinstance(content, dict) else content
    if not isinstance(users, list):
        raise InvalidFile("expected a list of users, or `users:` with a list")
    people = [_person(number, user, channels) for number, user in enumerate(users, start=1)]
    names = [person.username for person in people]
    for name in names:
        if names.count(name) > 1:
            raise InvalidFile(f"two users have the id {name!r}")
    return people


def apply(*, people: list[Person], only_listed: bool, now: datetime) -> list[Change]:
    """Create missing users and identities; removes and changes nothing.

    New users keep the file's meaning, an empty list is open to everyone, unless ``only_listed``.
    One transaction: for a dry run the caller raises inside its own.
    """
    with transactions.atomic_write():
        return [_apply(person, only_listed=only_listed, now=now) for person in people]


def _apply(person: Person, *, only_listed: bool, now: datetime) -> Change:
    user = User.objects.filter(username=person.username).first()
    new = user is None
    if user is None:
        user = User(username=person.username, display_name=person.name[:200])
        user.only_listed = only_listed or not person.open_kinds
        user.set_unusable_password()
        user.save(force_insert=True)
    added = [each for each in person.identities if _add(user, each)]
    if new or added:
        listed: dict[str, object] = {
            "new": new,
            "only_listed": user.only_listed,
            "added": [f"{each.kind}:{each.value}" for each in added],
        }
        audit.record(
            actor="manage.py", action="user.imported", subject=person.username, data=listed, now=now
        )
    return Change(person, new, added)


def _add(user: User, listed: Listed) -> bool:
    _, new = ChannelIdentity.objects.get_or_create(
        user=user, kind=listed.kind, channel=listed.channel, account=None, value=listed.value
    )
    return new


def _person(number: int, user: object, channels: Collection[str]) -> Person:
    if not isinstance(user, dict):
        raise InvalidFile(f"user {number}: expected name, id, im, email, phone")
    name = str(user.get("name") or user.get("id") or "").strip()
    username = USERNAME.sub("-", str(user.get("id") or name).strip())[:150].strip("-")
    if not username:
        raise InvalidFile(f"user {number}: a name or an id is needed")
    person = Person(username=username, name=name)
    for kind in KINDS:
        values = user.get(kind) or []
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise InvalidFile(f"user {number} ({username}): {kind} must be a list of texts")
        person.identities += [_listed(kind, each, channels, username) for each in values]
    return person


def _listed(kind: str, value: str, channels: Collection[str], username: str) -> Listed:
    prefix, colon, rest = value.partition(":")
    channel = prefix if kind == "im" and colon and prefix in channels else ""
    try:
        address = normalise(kind=kind, value=rest if channel else value, channel=channel)
    except InvalidIdentity as error:
        raise InvalidFile(f"{username}: {kind}: {value!r}: {error}") from error
    return Listed(kind, channel, address)
