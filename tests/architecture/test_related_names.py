"""Names of reverse relations."""

import sys

import pytest
from django.apps import apps
from django.db.models import Model

OURS = ("core", "allowlist", "channels_app")


@pytest.mark.parametrize(
    "model", [each for app in OURS for each in apps.get_app_config(app).get_models()]
)
def test_no_reverse_relation_has_a_name_that_the_models_module_uses(model: type[Model]) -> None:
    # To a type checker it is in the class's scope: there `models.TextChoices` would be its own.
    known = vars(sys.modules[model.__module__])
    names = {each.get_accessor_name() for each in model._meta.related_objects}
    assert names & known.keys() == set()
