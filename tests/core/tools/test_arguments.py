"""Numbers as texts and null for nothing are read; what is wrong is refused in a sentence."""

from typing import Any

import pytest

from core.plugins import registry
from core.tools.base import ToolError
from core.tools.route_to_plugin import known

SLIDES = registry.every()["ppt-generation"].capabilities["create_from_source"]


@pytest.mark.parametrize("number", ["9" * 5000, 1e30, -1e300, "-" + "9" * 400])
def test_a_number_of_any_length_is_refused_in_words(number: Any) -> None:
    """Each was an error of the gateway itself, and the turn's end."""
    with pytest.raises(ToolError, match=r"^parameters\.slides must be a whole number from 3 to 40"):
        known({"source": "Bees", "slides": number}, SLIDES, "ppt-generation")
