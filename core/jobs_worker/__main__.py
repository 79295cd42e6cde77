"""The process of one job: ``python -m core.jobs_worker PARENT JOB ATTEMPT``."""

import os
import sys

import django

from core.lib.child import die_with_parent


def main(parent: int, job_id: int, attempt: int) -> int:
    """Work on a claimed job in this process, which ends with ``parent``; return its exit code."""
    die_with_parent(parent=parent)
    django.setup()
    from core.jobs_worker import process  # noqa: PLC0415 - needs the line above

    return process.work(job_id=job_id, attempt=attempt)


if __name__ == "__main__":
    code = main(*map(int, sys.argv[1:]))
    sys.stderr.flush()
    os._exit(code)  # a thread of a plugin may not end
