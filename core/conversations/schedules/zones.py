"""Time zones by their IANA names, and by the names of cities."""

import re
import unicodedata
from difflib import get_close_matches
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.utils.translation import gettext

from core.conversations.schedules.rule_text import RuleError

# In the folder of the system's zones, but no zones of IANA that mean a place or UTC.
NO_NAMES = {"localtime", "posixrules", "Factory"}
SHORTEST = 5  # of names that are searched for by similarity: CEST is like West
LONGEST = 64  # of names in the database of zones: about 30
MOST = 10
# UTC+7, GMT -3, +05:00. IANA's Etc/GMT+7 is seven hours behind: its sign is the other way round.
HOURS = re.compile(r"(?:utc|gmt)?_?([+\-−])_?([0-9]{1,2})(?::?([0-9]{2}))?")
# IANA names only whole hours so; these places have the others, all year.
PARTS_OF_HOURS = {
    "+3:30": "Asia/Tehran",
    "+4:30": "Asia/Kabul",
    "+5:30": "Asia/Kolkata",
    "+5:45": "Asia/Kathmandu",
    "+6:30": "Asia/Yangon",
    "+8:45": "Australia/Eucla",
    "+9:30": "Australia/Darwin",
    "-9:30": "Pacific/Marquesas",
}


def zone_named(name: str) -> ZoneInfo:
    """Return the zone of an IANA name, in any case and with spaces for "_", or of hours from UTC.

    Raises RuleError, with names that are like it.
    """
    wanted = folded(name) if len(name) <= LONGEST else ""
    if found := names().get(wanted) or zone_of_hours(wanted):
        return ZoneInfo(found)
    close = close_to(name)
    hint = gettext("Use one such as Europe/Berlin.")
    if close:
        hint = gettext("Did you mean {names}?").format(names=gettext(" or ").join(close))
    said = gettext('"{name}" is not the IANA name of a time zone. {hint}')
    raise RuleError(said.format(name=name[:LONGEST], hint=hint))


def zone_of_hours(wanted: str) -> str:
    """Return the IANA name for a distance from UTC such as ``utc+7``; "" for none."""
    found = HOURS.fullmatch(wanted)
    if found is None:
        return ""
    hours, minutes, is_east = int(found[2]), found[3] or "00", found[1] == "+"
    if minutes != "00":
        return PARTS_OF_HOURS.get(f"{'+' if is_east else '-'}{hours}:{minutes}", "")
    return names().get(f"etc/gmt{'-' if is_east else '+'}{hours}", "")


def stored_zone(name: str) -> ZoneInfo:
    """Return the zone of a stored name; UTC if this machine does not know it."""
    return ZoneInfo(name) if name in known() else ZoneInfo("UTC")


def close_to(name: str) -> list[str]:
    """Return at most three IANA names that are like a name of which there is no zone."""
    if found := find_zones(name)[:3]:
        return found
    wanted = folded(name) if SHORTEST <= len(name) <= LONGEST else ""
    # Of places: EST is a zone without daylight saving, which hardly anybody means.
    places = [each for each in sorted(names()) if "/" in each and not each.startswith("etc/")]
    cities = {each.rpartition("/")[2]: each for each in places}
    like = get_close_matches(wanted, cities, n=3, cutoff=0.75)
    close = [cities[each] for each in like] or get_close_matches(wanted, places, n=3, cutoff=0.7)
    return [names()[each] for each in close]


def find_zones(words: str) -> list[str]:
    """Return at most ten IANA names for a name, for a city (``berlin``, ``New York``), or for hours
    from UTC.

    The one of a name; without one those whose city is called so, else those whose city begins so.
    """
    wanted = folded(words) if len(words) <= LONGEST else ""
    if not wanted:
        return []
    if one := names().get(wanted) or zone_of_hours(wanted):
        return [one]
    cities = [(each.rpartition("/")[2], each) for each in sorted(names())]
    found = [each for city, each in cities if city == wanted]
    found = found or [each for city, each in cities if city.startswith(wanted)]
    return [names()[each] for each in found[:MOST]]


@cache
def known() -> set[str]:
    """Return the names of this machine's zones: reading their folder takes milliseconds."""
    return available_timezones()


@cache
def names() -> dict[str, str]:
    """Return folded name -> IANA name."""
    return {folded(each): each for each in known() - NO_NAMES}


def folded(name: str) -> str:
    """Return a name for comparison: ``São Paulo`` is ``sao_paulo``."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    return "_".join("".join(each for each in plain if not unicodedata.combining(each)).split())
