"""The rows of fields on the admin's pages."""

import pytest
from django.contrib import admin
from django.test import RequestFactory

from core.models import User


@pytest.mark.django_db
def test_no_page_has_more_than_two_fields_beside_each_other() -> None:
    """Of three or four beside each other a laptop showed one letter a line."""
    request = RequestFactory().get("/")
    request.user = User(is_owner=True, is_staff=True, is_superuser=True)
    wide = [
        (model.__name__, row)
        for model, page in admin.site._registry.items()
        for _, options in page.get_fieldsets(request)
        for row in options["fields"]
        if not isinstance(row, str) and len(row) > 2
    ]
    assert wide == []
