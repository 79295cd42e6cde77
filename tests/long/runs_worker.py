"""The normal ``runs`` worker with the plugins of the tests: ``python -m tests.long.runs_worker``."""

import sys

from gateway_project.processes import workers
from tests.long.points import TEST_PLUGINS

if __name__ == "__main__":
    workers.load()
    from core.plugins import registry

    registry.PLUGINS |= TEST_PLUGINS
    sys.exit(workers.main("runs"))
