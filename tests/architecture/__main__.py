"""``python -m tests.architecture`` writes all that is made from the code.

Ceilings (``--raise`` also raises them), the figure, tables and lists of docs/architecture.md, and
the ceilings of calls on SQLite and PostgreSQL.
"""

import os
import subprocess
import sys

from tests import ROOT
from tests.architecture import ceilings, document, figure


def main(arguments: list[str]) -> int:
    """Write everything; the first failure ends it."""
    figures = {"figure": document.fenced(figure.mermaid(), "mermaid")}
    document.write(figures | document.tables())
    failed = ceilings.main(arguments)
    walks = "raise" if "--raise" in arguments else "lower"
    for database in () if failed else ("postgres", "sqlite"):
        command = [sys.executable, "-m", "pytest", "-q", "tests/architecture/test_walk.py"]
        environment = {**os.environ, "WRITE_WALKS": walks, "TEST_DATABASE": database}
        failed = (
            failed or subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
