"""The key pair by which push services know this gateway."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from channels_app.push import keys
from core.lib import encryption
from core.models import Installation

pytestmark = pytest.mark.django_db


def test_w58_a_key_is_made_once_beside_other_secrets(django_assert_num_queries: Any) -> None:
    sealed = encryption.encrypt({"other": "secret"})
    Installation.objects.update_or_create(id=1, defaults={"secrets": sealed})
    first = keys.private_key()
    assert isinstance(first.curve, ec.SECP256R1)
    stored = encryption.decrypt(Installation.objects.get(id=1).secrets)
    assert stored.keys() == {"other", "vapid"}
    assert stored["other"] == "secret"
    with django_assert_num_queries(1):
        assert keys.private_key().private_numbers() == first.private_numbers()


def test_w58_a_key_is_made_in_a_database_without_an_installation() -> None:
    Installation.objects.all().delete()
    assert keys.stored() == ""
    assert keys.public_key() == keys.public_key()
    assert Installation.objects.get().pk == 1


def test_w58_a_key_that_another_process_has_just_made_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was not there when this one looked, and was when it held the lock."""
    theirs = keys.public_key()
    found = iter(["", keys.stored()])
    monkeypatch.setattr(keys, "stored", lambda: next(found))
    assert keys.public_key() == theirs
    monkeypatch.undo()
    assert keys.public_key() == theirs


def test_w58_the_public_key_is_a_point_in_base64url_without_padding() -> None:
    found = keys.public_key()
    assert len(found) == 87
    assert found.startswith("B"), "0x04: an uncompressed point"
    assert not set(found) & set("=+/")
