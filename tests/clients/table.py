"""The table of docs/clients.md: the abilities of each client, as the tests found it.

``WRITE_CLIENTS_TABLE=1 python -m pytest tests/clients/test_journeys.py`` writes its rows.
"""

import os
from pathlib import Path

from gateway_project.home import BASE_DIR

DOCUMENT = Path(BASE_DIR) / "docs" / "clients.md"
JOURNEYS = {
    "first": "first answer",
    "stream": "stream",
    "tool": "tool of the client",
    "image": "image",
    "remember": "two turns remembered",
    "stop": "stop",
    "cut": "network cut",
    "revoked": "revoked key",
    "budget": "budget reached",
    "down": "model down",
}
WORKS, ASKS_AGAIN, NOT_THERE = "✓", "✓ again", "–"


def row(title: str, cells: dict[str, str]) -> str:
    """Return the line of a client."""
    return f"| {title} | " + " | ".join(cells[name] for name in JOURNEYS) + " |"


def is_written(title: str, line: str) -> bool:
    """Return whether the document has ``line`` for a client; it is written first if asked for."""
    text = DOCUMENT.read_text()
    if os.environ.get("WRITE_CLIENTS_TABLE"):
        old = [each for each in text.splitlines() if each.startswith(f"| {title} |")]
        assert len(old) == 1, f"docs/clients.md has {len(old)} rows for {title}"
        text = text.replace(old[0], line)
        DOCUMENT.write_text(text)
    return line in text.splitlines()
