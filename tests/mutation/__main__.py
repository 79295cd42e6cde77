"""Mutation tests of what must not be wrong: ``python -m tests.mutation [path …]`` (decision 125).

Ends with 1 when a mutant survived that ``survivors.toml`` does not justify, or when a justified
one was killed or is gone: the list is to be looked at again.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.identity import Identity, justified
from tests.mutation.mutants import Mutant, of_module
from tests.mutation.targets import TARGETS, Target
from tests.mutation.zygote import KILLED, SURVIVED, TIMED_OUT

ROOT = Path(__file__).resolve().parent.parent.parent
# Whole tracebacks cost three quarters of the time: pytest looks for their sources in all modules.
OPTIONS = ("-q", "--capture=no", "--tb=native", "-p", "no:cacheprovider", "-m", "not slow")
PYTEST = (sys.executable, "-m", "pytest", *OPTIONS, "-p", "tests.mutation.zygote")
WHY = "TODO: kill it, or say why it may live."


@dataclass(frozen=True, slots=True)
class Report:
    """The outcomes of the mutants of a target."""

    target: Target
    outcomes: dict[Identity, str]

    def line(self) -> str:
        """Return a row of the table."""
        count = Counter(self.outcomes.values())
        numbers = (len(self.outcomes), count[KILLED], count[SURVIVED], count[TIMED_OUT])
        cells = " | ".join(f"{number:7d}" for number in numbers)
        return f"| {self.target.title:18} | {self.target.path:27} | {cells} |"


HEADER = (
    "| what               | module                      | mutants |  killed | survive | timeout |\n"
    "|---|---|---|---|---|---|"
)


def examine(target: Target, known: Collection[Identity]) -> Report:
    """Run the tests of ``target`` on each of its mutants.

    On those that are ``known`` to survive once more when they did not: a busy machine kills too.
    """
    found = of_module(root=ROOT, path=target.path, names=target.names.split())
    outcomes = dict(zip(found, in_forks(target, found), strict=True))
    doubtful = [each for each in found if each.identity in known and outcomes[each] != SURVIVED]
    if doubtful:
        outcomes.update(zip(doubtful, in_forks(target, doubtful), strict=True))
    return Report(target, {each.identity: outcome for each, outcome in outcomes.items()})


def in_forks(target: Target, mutants: Sequence[Mutant]) -> list[str]:
    """Return the outcomes of ``mutants``, in their order."""
    path = str(ROOT / target.path)
    jobs = [
        {
            "path": path,
            "function": each.identity.function,
            "source": each.source,
            "is_constant": each.is_constant,
        }
        for each in mutants
    ]
    with tempfile.TemporaryDirectory(prefix="latchkey-mutants-") as folder:
        (Path(folder) / "work.json").write_text(json.dumps(jobs))
        log = Path(folder) / "log"
        with log.open("wb") as output:
            subprocess.run(
                [*PYTEST, "tests/mutation/warm.py", *target.tests],
                cwd=ROOT,
                env={**os.environ, "MUTATION_WORK": folder},
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        ready = Path(folder) / "outcomes.json"
        outcomes: list[str] = json.loads(ready.read_text()) if ready.exists() else []
        if len(outcomes) < len(mutants):
            raise SystemExit(f"{target.path}: not all mutants were run\n{log.read_text()[-5000:]}")
        return outcomes


def main(paths: Sequence[str]) -> int:
    """Examine the targets whose modules are ``paths`` (none: all); the exit code."""
    known, wrong = justified(), 0
    reports = []
    for target in TARGETS:
        if not paths or target.path in paths:
            reports.append(examine(target, known))
            wrong += told(reports[-1], known)
    write("\n".join([HEADER, *(report.line() for report in reports)]))
    return 1 if wrong else 0


def told(report: Report, known: dict[Identity, str]) -> int:
    """Print survivors without a justification and justified ones that died; return their number."""
    survived = {each for each, outcome in report.outcomes.items() if outcome == SURVIVED}
    expected = {each for each in known if each.path == report.target.path}
    for each in survived - expected:
        write(f"SURVIVED\n{each.stanza(WHY)}")
    for each in expected - survived:
        write(f"NO SURVIVOR ANY MORE\n{each.stanza(known[each])}")
    return len(survived ^ expected)


def write(text: str) -> None:
    """Print a progress line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
