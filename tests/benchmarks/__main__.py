"""Run every measurement and print it: ``python -m tests.benchmarks``."""

import sys

from tests.benchmarks import startup

if __name__ == "__main__":
    sys.stdout.write(startup.measure())
