"""Constraints of the database that a form checks itself, with words beside the field."""

from django.db.models import Model


def leave_to_form(row: Model) -> None:
    """Leave the constraints of a row to its form: Django's words would name none of its fields."""
    row.validate_constraints = _nothing  # type: ignore[method-assign]


def _nothing(exclude: object = None) -> None:
    """Accept every row."""
