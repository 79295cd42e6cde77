"""Normalise identities: one form for storing and comparing ([A2])."""

import re
import unicodedata

import idna
import phonenumbers

from core.lib import text

MAX_LENGTH = 256
# Channels with numeric senders. Their names (``@bob``) can be taken over by another user.
NUMERIC_CHANNELS = frozenset({"telegram"})
# RFC 5322 dot-atom, lower-case ASCII: quoted local parts and display names are refused.
LOCAL_PART = re.compile(r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
# A canonical number: int() also takes 1_2 and other digits than ASCII's.
NUMERIC_ID = re.compile(r"-?[1-9][0-9]{0,19}")
PHONE = re.compile(r"\+?[0-9][0-9 ().\-/]*")


class InvalidIdentity(ValueError):
    """The value is no address of that kind; the text gives the reason."""


def normalise(*, kind: str, value: str, channel: str = "") -> str:
    """Return the normal form of ``value``: a Telegram id, an e-mail address, E.164 digits, another
    im id.

    ``kind`` is ``im``, ``email`` or ``phone``; ``channel`` narrows ``im``. Raises
    ``InvalidIdentity`` for anything else, so that only valid addresses are compared.
    """
    trimmed = value.strip()
    if not trimmed:
        raise InvalidIdentity("an identity must not be empty")
    if len(trimmed) > MAX_LENGTH:
        raise InvalidIdentity(f"an identity has at most {MAX_LENGTH} characters")
    if kind == "im":
        return _im(trimmed, channel)
    if kind == "email":
        return _email(trimmed)
    if kind == "phone":
        return _phone(trimmed)
    raise InvalidIdentity(f"unknown kind of identity: {text.one_line(kind, 20)!r}")


def _im(value: str, channel: str) -> str:
    if channel in NUMERIC_CHANNELS:
        if not NUMERIC_ID.fullmatch(value):
            raise InvalidIdentity(f"on {channel} an identity is the numeric id, digits only")
        return value
    # Nor the code of one, as the request of such a sender has it.
    if {"\n", "\t"} & set(value) or text.visible(value) != value or text.CODE.search(value):
        raise InvalidIdentity("an identity has no invisible or control characters")
    return value


def _email(value: str) -> str:
    local, at, domain = value.rpartition("@")
    # Not NFKC on the local part: that would accept a look-alike address as the real one.
    if not at or not local.isascii() or not LOCAL_PART.fullmatch(local.lower()):
        raise InvalidIdentity("an e-mail address is name@domain, in plain ASCII before the @")
    folded = unicodedata.normalize("NFKC", domain)
    if "." not in folded:
        raise InvalidIdentity("the domain of an e-mail address must contain a dot")
    try:
        host = idna.encode(folded.lower()).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise InvalidIdentity("the domain of the e-mail address is not valid") from error
    return f"{local.lower()}@{host}"


def _phone(value: str) -> str:
    if not PHONE.fullmatch(value):
        raise InvalidIdentity("a phone number has digits, with + before the country code")
    international = f"+{value.removeprefix('+').removeprefix('00')}"
    try:
        number = phonenumbers.parse(international)
    except phonenumbers.NumberParseException as error:
        raise InvalidIdentity("a phone number must start with its country code") from error
    if not phonenumbers.is_possible_number(number):
        raise InvalidIdentity("this is not a possible phone number")
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
