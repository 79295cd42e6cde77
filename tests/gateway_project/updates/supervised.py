"""The supervisor of GATEWAY_HOME with one child, ``web.sh`` of the clone that is named, as a
process of its own: ``python -m … FOLDER``. It goes on after an update in this process.
"""

import os
import sys
from pathlib import Path

from gateway_project import home
from gateway_project.processes import holding, preflight
from gateway_project.processes.service import Service
from gateway_project.processes.supervisor import Supervisor


def run(folder: Path, code: Path) -> bool:
    """Run until a signal; return whether an update was over."""
    with preflight.lock(folder):
        web = Service(name="web", arguments=["/bin/sh", "web.sh"], env=os.environ)
        supervisor = Supervisor(services=[web], folder=folder, url="http://here", cwd=code)
        supervisor.run()
        return supervisor.held and supervisor.wait_for_update()


def main() -> None:
    while run(home.directory(), Path(sys.argv[1])):
        holding.go_back(home.directory())


if __name__ == "__main__":
    main()
