"""Run every measurement, print each as it comes: ``python -m tests.benchmarks``."""

import sys

from tests.benchmarks import markdown, startup, turns

if __name__ == "__main__":
    turns.main(sys.argv[1:])
    for measure in (markdown.measure, startup.measure):
        sys.stdout.write(f"\n{measure()}")
        sys.stdout.flush()
