"""Encrypted reasoning: its content, its bounds, and its person."""

import pytest
from pytest_django import Settings

from channels_app.client_api.responses import reasoning
from channels_app.client_api.responses.reasoning import LONGEST, MOST_CHARACTERS, NotVerifiedError
from core.lib import encryption


def test_w79_the_longest_thought_fits_and_is_opened() -> None:
    """[W79] Its beginning; the costliest characters are within the bound of what is accepted."""
    for letter in ("a", "\x01", "💭"):
        sealed = reasoning.encrypt(letter * (MOST_CHARACTERS + 1), person=1)
        assert len(sealed) <= LONGEST
        assert reasoning.decrypt(sealed, "input", person=1) == letter * MOST_CHARACTERS


def test_w79_keys_are_rotated_and_other_secrets_are_no_reasoning(settings: Settings) -> None:
    """[W79] An old key opens while the gateway has it; a stored secret is not reasoning."""
    settings.GATEWAY_ENCRYPTION_KEYS = ["old"]
    sealed = reasoning.encrypt("so", person=1)
    secret = reasoning.PREFIX + encryption.encrypt({"person": "1", "token": "x"})
    settings.GATEWAY_ENCRYPTION_KEYS = ["new", "old"]
    assert reasoning.decrypt(sealed, "input", person=1) == "so"
    for wrong, person, keys in (
        (secret, 1, ["old"]),
        (sealed, 2, ["old"]),
        (sealed, 1, ["new"]),
        (sealed + "A" * LONGEST, 1, ["old"]),
    ):
        settings.GATEWAY_ENCRYPTION_KEYS = keys
        with pytest.raises(NotVerifiedError):
            reasoning.decrypt(wrong, "input", person=person)
