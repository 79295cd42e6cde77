"""Pages that were opened a while ago, as in a second tab."""

import pytest
from django.contrib import admin
from django.test import RequestFactory

from core.admin.base import ChangedFieldsOnly
from core.models import User


@pytest.mark.django_db
def test_each_page_of_a_row_stores_its_changes_only() -> None:
    """A service that was switched off in one tab was switched on from another."""
    request = RequestFactory().get("/")
    request.user = User.objects.create(is_owner=True, is_staff=True, is_superuser=True)
    pages = [each for each in admin.site._registry.values() if each.has_change_permission(request)]
    assert pages
    assert [each for each in pages if not issubclass(each.form, ChangedFieldsOnly)] == []
