"""The normal ``runs`` worker with the plugins of the tests: ``python -m tests.core.jobs_worker.runs_worker``."""

import sys

import django

from gateway_project.processes import workers
from tests.core.jobs_worker.points import prepare

if __name__ == "__main__":
    workers.load()
    django.setup()
    prepare()
    sys.exit(workers.main("runs"))
