"""The time zone on a person's page in the admin: one that exists, or none."""

import pytest
from django.test import Client

from core.models import User
from tests.allowlist.conftest import MakeUser, identities

pytestmark = pytest.mark.django_db


def saved(user: User, zone: str) -> str:
    """Save a person's form with a time zone; return the page that comes then."""
    browser = Client()
    root = User.objects.create(username=f"root {zone}", is_staff=True, is_superuser=True)
    browser.force_login(root)
    form = {"username": user.username, "is_active": "on", "time_zone": zone}
    address = f"/admin/core/user/{user.pk}/change/"
    page = browser.post(address, form | identities(), follow=True).content.decode()
    user.refresh_from_db()
    return page


def test_a_time_zone_has_the_name_of_iana(make_user: MakeUser) -> None:
    ann = make_user("ann")
    for typed, kept in ((" europe/berlin ", "Europe/Berlin"), ("", ""), ("UTC", "UTC")):
        saved(ann, typed)
        assert ann.time_zone == kept


@pytest.mark.parametrize("zone", ["Berlin", "Europe", "../etc/passwd", "localtime"])
def test_a_name_without_a_time_zone_is_refused(make_user: MakeUser, zone: str) -> None:
    """A folder of zones is none: no answer of anybody ended with that of the owner."""
    ann = make_user("ann")
    User.objects.update(time_zone="Asia/Tokyo")
    assert "is not the IANA name of a time zone" in saved(ann, zone)
    assert ann.time_zone == "Asia/Tokyo"
