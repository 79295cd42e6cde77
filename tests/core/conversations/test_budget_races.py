"""Processes at once against one budget: it is not overrun, and every token is counted once.

``BUDGET_PROCESSES`` and ``BUDGET_CALLS``: how many, and how many calls at once of each.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.lib import child
from gateway_project.home import BASE_DIR
from tests.conftest import DatabaseMaker
from tests.core.conversations.metered import CALL
from tests.core.conversations.spenders import POINTS
from tests.gateways import Gateway
from tests.servers import python

pytestmark = pytest.mark.slow
PROCESSES = int(os.environ.get("BUDGET_PROCESSES", "4"))
AT_ONCE = int(os.environ.get("BUDGET_CALLS", "12"))
SECONDS = 600
LOOK = """
import json
from core.models import BudgetPeriod, ModelCall
rows = ModelCall.objects.order_by("id").values_list(
    "run_id", "state", "prompt_tokens", "completion_tokens", "estimated", "failure", "attempt")
period = list(BudgetPeriod.objects.values_list("budget_id", "spent", "reserved"))
print("FOUND", json.dumps([period, list(rows)]))
"""
MAKE = """
from core.models import Budget
Budget.objects.create(unit="tokens", period="month", limit={limit})
Budget.objects.create(unit="tokens", period="month", limit=10**9, each_person=True)
"""


class Home:
    """A database with budgets that processes spend."""

    def __init__(self, folder: Path, url: str, *, limit: int) -> None:
        self.gateway = Gateway(folder=folder, database_url=url, extra={"TIME_ZONE": "UTC"})
        self.folder, self.limit = folder, limit
        (folder / "home").mkdir(parents=True)
        self.gateway.manage("shell", "-c", MAKE.format(limit=limit))

    def spend(self, orders: list[dict[str, Any]]) -> list[int]:
        """Let processes spend; return their exit codes."""
        env = self.gateway.env | {
            "SPENDERS": json.dumps(orders),
            "SPENDERS_FOLDER": str(self.folder),
            "LOG_LEVEL": "ERROR",
        }
        done = subprocess.run(
            child.command(*python("tests.core.conversations.spenders")),
            cwd=BASE_DIR,
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found: list[int] = json.loads((self.folder / "codes").read_text())
        return found

    def journal(self) -> list[dict[str, Any]]:
        """Return the tokens that the models counted."""
        files = sorted(self.folder.glob("journal.*"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def look(self) -> tuple[list[list[int]], list[list[Any]]]:
        """Return the periods and the calls, as the database has them."""
        said = self.gateway.manage("shell", "-c", LOOK)
        line = next(each for each in said.splitlines() if each.startswith("FOUND "))
        periods, calls = json.loads(line.removeprefix("FOUND "))
        return periods, calls


@pytest.fixture
def database(new_database: DatabaseMaker) -> str:
    """Return the address of an empty database."""
    return new_database()


def test_many_processes_spend_one_budget_to_the_token(database: str, tmp_path: Path) -> None:
    """Where a third of the calls would fit, none too many is made."""
    calls = PROCESSES * AT_ONCE * 2
    home = Home(tmp_path / "g", database, limit=CALL * calls // 6)
    assert home.spend([{"number": AT_ONCE, "calls": 2}] * PROCESSES) == [0] * PROCESSES
    periods, rows = home.look()
    made = [each for each in home.journal() if "tokens" in each]
    refused = [each for each in home.journal() if "refused" in each]
    shared = [spent for budget, spent, _ in periods if budget == min(each[0] for each in periods)]
    own = [spent for budget, spent, _ in periods if budget == max(each[0] for each in periods)]
    assert refused
    assert {each["refused"] for each in refused} == {"budget"}
    assert len(own) == PROCESSES
    assert shared == [sum(own)] == [sum(each["tokens"] for each in made)]
    assert shared[0] <= home.limit
    # Waiting for others ends in time on a busy machine: then a little is left.
    assert shared[0] > home.limit * 0.9
    assert all(reserved == 0 for _, _, reserved in periods)
    assert {row[1] for row in rows} == {"settled"}
    assert len(rows) == len(made)
    assert sum(row[2] + row[3] for row in rows) == shared[0]
    assert not any(row[4] for row in rows)


def test_no_reservation_outlives_its_process(database: str, tmp_path: Path) -> None:
    """Killed after a reservation, in the middle of an answer, before it is settled, and before the
    commit of the end: each call counts once."""
    home = Home(tmp_path / "g", database, limit=CALL * PROCESSES * AT_ONCE * 3)
    orders = [
        {"number": AT_ONCE, "calls": 2, "point": point, "at": at}
        for point in POINTS
        for at in (1, AT_ONCE)
    ]
    assert home.spend(orders) == [-9] * len(orders)
    periods, rows = home.look()
    assert all(reserved == 0 for _, _, reserved in periods)
    assert {row[1] for row in rows} == {"settled"}
    shared = next(spent for budget, spent, _ in periods if budget == min(p[0] for p in periods))
    assert shared == sum(row[2] + row[3] for row in rows) <= home.limit
    assert shared == sum(spent for _, spent, _ in periods) - shared
    lost = [row for row in rows if row[5] == "lost"]
    assert lost
    assert all(row[4] for row in lost)
    counted: dict[int, list[int]] = {}
    for each in home.journal():
        counted.setdefault(each["run"], []).append(each["tokens"])
    for run_id, tokens in counted.items():
        known = [row[2] + row[3] for row in rows if row[0] == run_id and row[5] != "lost"]
        # Reported and committed calls are those that the model counted, in its order.
        assert known == tokens[: len(known)]
        of_run = [row for row in rows if row[0] == run_id]
        assert len(tokens) <= len(of_run) <= len(tokens) + 1
