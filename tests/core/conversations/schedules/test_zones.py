"""Time zones by IANA names, and by cities."""

import os
import subprocess
import sys
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.conversations.schedules import zones
from core.conversations.schedules.rules import RuleError


def test_a_zone_is_found_by_its_name_in_any_case() -> None:
    assert zones.zone_named("europe/berlin").key == "Europe/Berlin"
    assert zones.zone_named(" America/New York ").key == "America/New_York"
    assert zones.zone_named("utc").key == "UTC"


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        *(("UTC+7", 7), ("GMT+7", 7), ("gmt -3", -3), ("+07:00", 7), ("UTC\u221205", -5)),
        *(("UTC+0", 0), ("UTC+5:30", 5.5), ("+0545", 5.75), ("UTC -9:30", -9.5)),
    ],
)
def test_hours_from_utc_are_those_that_people_mean(name: str, hours: float) -> None:
    """IANA counts them the other way round: GMT+7 became Etc/GMT+7, seven hours behind UTC."""
    zone = zones.zone_named(name)
    assert zone.utcoffset(datetime(2026, 1, 1)) == timedelta(hours=hours)
    if hours:
        assert zones.find_zones(name) == [zone.key]
    assert zones.zone_named("Etc/GMT+7").key == "Etc/GMT+7"


def test_places_with_parts_of_an_hour_have_them_all_year() -> None:
    for name, place in zones.PARTS_OF_HOURS.items():
        moments = [datetime(2026, month, 1) for month in range(1, 13)]
        assert zones.zone_named(name).key == place
        hours, minutes = name[1:].split(":")
        away = timedelta(hours=int(hours), minutes=int(minutes)) * (1 if name[0] == "+" else -1)
        assert {zones.zone_named(name).utcoffset(each) for each in moments} == {away}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Berlin", "Did you mean Europe/Berlin?"),
        ("Europe/Berln", "Europe/Berlin"),
        ("CEST", "Use one such as Europe/Berlin"),
        ("EST5", "Did you mean EST5EDT?"),
        ("GMT+5:15", "Use one such as Europe/Berlin"),
        ("GMT+15", "is not the IANA name"),
        ("", "Use one such as"),
        ("../../etc/passwd", "Use one such as"),
        ("localtime", "is not the IANA name"),
        ("Europe/Berlin\x00", "is not the IANA name"),
        ("x" * 100_000, "Use one such as"),
    ],
)
def test_an_unknown_zone_is_refused_with_names_like_it(name: str, hint: str) -> None:
    with pytest.raises(RuleError) as caught:
        zones.zone_named(name)
    assert hint in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("berlin", ["Europe/Berlin"]),
        ("New York", ["America/New_York"]),
        ("São Paulo", ["America/Sao_Paulo"]),
        ("europe/paris", ["Europe/Paris"]),
        ("utc", ["UTC"]),
        ("singapore", ["Singapore"]),
        ("Istanbul", ["Asia/Istanbul", "Europe/Istanbul"]),
        ("buenos", ["America/Argentina/Buenos_Aires", "America/Buenos_Aires"]),
        ("Atlantis", []),
        ("", []),
        ("a" * 100_000, []),
    ],
)
def test_zones_are_found_by_the_name_of_a_city(words: str, names: list[str]) -> None:
    assert zones.find_zones(words) == names


@given(st.text(max_size=70))
def test_any_words_are_searched_for(words: str) -> None:
    for each in zones.find_zones(words):
        assert zones.zone_named(each).key == each


def test_stored_zones_are_looked_up_without_reading_the_folder_of_zones_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A list shows 50 of them; reading takes ten milliseconds."""
    zones.stored_zone("Europe/Berlin")
    monkeypatch.setattr(zones, "available_timezones", lambda: pytest.fail("read again"))
    assert zones.stored_zone("Europe/Madrid").key == "Europe/Madrid"
    assert zones.stored_zone("Europe/Atlantis").key == "UTC"


def test_a_machine_without_time_zones_has_those_of_the_package() -> None:
    """As in a small container."""
    code = (
        "from zoneinfo import *; print(ZoneInfo('Europe/Berlin').key, len(available_timezones()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    name, number = done.stdout.split()
    assert name == "Europe/Berlin"
    assert int(number) > 400
