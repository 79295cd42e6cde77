"""The page of changes in the admin [X53]."""

import re

import pytest
from django.test import Client

from core import VERSION
from core.models import User

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create(username="sam", is_staff=True))
    return client


def test_x53_the_foot_of_a_page_leads_to_the_changes(staff: Client) -> None:
    """Their links lead to files of the repository, so that only the words are shown."""
    foot = re.search(rf'<a href="([^"]+)">Latchkey {VERSION}</a>', text(staff, "/admin/"))
    assert foot is not None
    page = text(staff, foot[1])
    assert f"This is Latchkey {VERSION}." in page
    changes = page[page.index("This is Latchkey") :]
    for words in ("<h2>Unreleased</h2>", "<strong>Upgrade notes</strong>", "docs/deploy.md"):
        assert words in changes
    assert "](" not in changes
    assert "<a href" not in changes[: changes.index("</section>")]


def test_x53_others_do_not_see_it(client: Client) -> None:
    assert client.get("/admin/changes/").status_code == 404


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()
