"""Loaded code is excluded from garbage collection."""

import subprocess
import sys

SCRIPT = """
import gc
from gateway_project.processes import garbage
loaded = [[] for _ in range(10_000)]
loop = []; loop.append(loop); del loop
garbage.settle()
assert gc.get_freeze_count() >= 10_000, gc.get_freeze_count()
assert gc.isenabled() and gc.get_threshold()[0] == garbage.NEW_OBJECTS
assert len(gc.get_objects()) < 10_000
assert gc.collect() == 0
made = []; made.append(made); del made
assert gc.collect() == 1
"""


def test_loaded_objects_are_frozen_and_later_ones_collected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
