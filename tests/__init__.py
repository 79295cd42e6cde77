"""``ROOT``: the folder of the repository; ``load_vectors``: examples with their results."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def load_vectors(name: str) -> Any:
    """Return the content of ``tests/vectors/NAME.json``."""
    return json.loads((ROOT / "tests" / "vectors" / f"{name}.json").read_text("utf-8"))
