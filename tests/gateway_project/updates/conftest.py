"""A small clone that this process takes for its own code."""

from pathlib import Path

import pytest

from gateway_project import home
from tests.gateway_project.updates.small import Small


@pytest.fixture
def small(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    """Return the clone that is updated; the installation has a home of its own."""
    del own_home  # it knows the real code
    made = Small.made(tmp_path)
    monkeypatch.setattr(home, "BASE_DIR", made.code)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # processes in the clone have the real packages
    return made
