"""One-time sign-in links."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from allowlist import sign_in
from allowlist.models import SignInLink
from core.models import User
from gateway_project import installation
from tests.threads import at_once

NOW = timezone.now()
MINUTE = timedelta(minutes=1)


@pytest.fixture
def owner(db: None) -> User:
    """Return the owner of a first start."""
    person, is_new = installation.ensure_owner()
    assert is_new
    assert person is not None
    return person


def test_a_link_signs_in_once(owner: User) -> None:
    """The first time, in time; never again."""
    token = sign_in.create(user=owner, now=NOW)
    assert sign_in.consume(token=token, now=NOW + MINUTE) == owner
    assert sign_in.consume(token=token, now=NOW + MINUTE) is None


@pytest.mark.django_db(transaction=True)
def test_of_many_taps_at_once_one_signs_in() -> None:
    """A conditional UPDATE decides, on both databases."""
    person, _ = installation.ensure_owner()
    assert person is not None
    token = sign_in.create(user=person, now=NOW)
    results = at_once(8, lambda: sign_in.consume(token=token, now=NOW))
    assert [each for each in results if each is not None] == [person]


def test_an_expired_link_does_not_sign_in(owner: User) -> None:
    """One hour unless told."""
    token = sign_in.create(user=owner, now=NOW)
    assert sign_in.consume(token=token, now=NOW + timedelta(hours=1)) is None
    short = sign_in.create(user=owner, now=NOW, ttl=MINUTE)
    assert sign_in.consume(token=short, now=NOW + 2 * MINUTE) is None


@pytest.mark.parametrize("minutes", ["525601", "99999999999999"])
def test_a_link_is_valid_for_a_year_at_most(owner: User, minutes: str) -> None:
    with pytest.raises(CommandError, match="at most 525600"):
        call_command("sign_in_link", "--minutes", minutes)


@pytest.mark.parametrize("token", ["", "x", "\x00", "\ud800", "é" * 1000])
def test_an_invalid_token_does_not_sign_in(owner: User, token: str) -> None:
    """Whatever is in the address."""
    assert sign_in.consume(token=token, now=NOW) is None


def test_a_deactivated_user_is_not_signed_in(owner: User) -> None:
    """A link from before does not help."""
    token = sign_in.create(user=owner, now=NOW)
    User.objects.update(is_active=False)
    assert sign_in.consume(token=token, now=NOW) is None


def test_only_a_digest_is_kept(owner: User) -> None:
    """The database's content does not suffice to sign in."""
    token = sign_in.create(user=owner, now=NOW)
    link = SignInLink.objects.get()
    assert token not in f"{link.digest} {link}"
    assert sign_in.consume(token=link.digest, now=NOW) is None


def test_links_that_expired_a_week_ago_are_forgotten(owner: User) -> None:
    """Making one tidies up."""
    sign_in.create(user=owner, now=NOW - timedelta(days=8))
    sign_in.create(user=owner, now=NOW)
    assert SignInLink.objects.count() == 1


def printed(*arguments: str) -> str:
    """Return the output of `manage.py sign_in_link`."""
    output = StringIO()
    call_command("sign_in_link", *arguments, stdout=output)
    return output.getvalue().strip()


def test_the_command_makes_a_link_for_the_owner_or_a_named_person(owner: User) -> None:
    """The token is the last part of the address."""
    guest = User.objects.create_user("guest")
    token = printed().rpartition("/sign-in/")[2]
    assert sign_in.consume(token=token, now=timezone.now()) == owner
    token = printed("--user", "guest").rpartition("/sign-in/")[2]
    assert sign_in.consume(token=token, now=timezone.now()) == guest


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--user", "nobody"], "nobody"), (["--minutes", "0"], "at least 1")],
)
def test_the_command_refuses_invalid_arguments(
    owner: User, arguments: list[str], words: str
) -> None:
    """And says what is wrong."""
    with pytest.raises(CommandError, match=words):
        printed(*arguments)


def test_without_an_active_owner_there_is_no_link(owner: User) -> None:
    """A deactivated owner is not replaced."""
    User.objects.update(is_active=False)
    assert installation.ensure_owner() == (None, False)
    assert User.objects.count() == 1
    with pytest.raises(CommandError, match="owner"):
        printed()
