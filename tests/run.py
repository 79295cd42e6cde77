"""Everything that CI runs: ``python -m tests.run all``; mutants and the slow proofs: ``… soak``."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from core.lib import child

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
DATABASES = ("sqlite", "postgres")
# So few failures may be the machine's: they are asked again, alone, and named in the end.
SECOND_LOOK = 5
TESTS_FAILED = 1
MEASURED = ("--cov", "--cov-report=", "--cov-fail-under=0")
# With a gateway on its own default database, on none, or of what no database decides (files, pages,
# the HTTP of an endpoint): once is enough. Fast tests that use no database are known by their
# fixtures (tests/conftest.py).
ONCE = (
    "tests/browser",
    "tests/channels_app/admin/first_run",
    "tests/channels_app/admin/test_assistants.py",
    "tests/channels_app/admin/test_models.py",
    "tests/channels_app/admin/test_providers.py",
    "tests/channels_app/bridge/test_examples.py",
    "tests/channels_app/client_api/ag_ui/test_interrupts.py",
    "tests/channels_app/client_api/openai/test_completions.py",
    "tests/channels_app/mcp/test_results.py",
    "tests/channels_app/telegram/test_emulator.py",
    "tests/channels_app/telegram/test_texts.py",
    "tests/channels_app/test_choosing.py",
    "tests/channels_app/test_every_file.py",
    "tests/core/jobs_worker/test_real_plugins.py",
    "tests/core/lib/test_safe_fetch.py",
    "tests/core/lib/test_safe_fetch_edges.py",
    "tests/core/lib/test_safe_fetch_networks.py",
    "tests/core/lib/test_safe_fetch_posts.py",
    "tests/core/messages/test_protocol.py",
    "tests/core/plugins/test_rendered.py",
    "tests/gateway_project/backups/test_scheduled.py",
    "tests/gateway_project/backups/test_telegram.py",
    "tests/gateway_project/processes",
    "tests/models_chaos/test_aimock.py",
    "tests/models_chaos/test_canaries.py",
    "tests/redteam/test_files.py",
)
# The same, on the second one: coverage is not measured there, and both take about as long. Single
# tests are marked ``unmeasured``.
ONCE_UNMEASURED = (
    "tests/allowlist/test_staff_rights.py",
    "tests/architecture",
    "tests/catalogues",
    "tests/channels_app/asgi/test_overload.py",
    "tests/channels_app/asgi/test_shutdown.py",
    "tests/channels_app/client_api/ag_ui/test_runs.py",
    "tests/channels_app/client_api/anthropic/test_messages.py",
    "tests/channels_app/client_api/openai/test_model_failures.py",
    "tests/channels_app/client_api/openai/test_model_requests.py",
    "tests/channels_app/client_api/passthrough/test_passthrough.py",
    "tests/channels_app/client_api/responses/test_journeys.py",
    "tests/channels_app/client_api/responses/test_responses.py",
    "tests/channels_app/client_api/ui_stream/test_chat.py",
    "tests/channels_app/client_api/ui_stream/test_questions.py",
    "tests/channels_app/http_api/test_bad_input.py",
    "tests/channels_app/webchat/test_many_sockets.py",
    "tests/channels_app/api/test_document.py",
    "tests/clients",
    "tests/core/messages/test_merge.py",
    "tests/core/plugins/test_fit.py",
    "tests/judges",
    "tests/models_chaos/test_failover.py",
    "tests/models_chaos/test_kills.py",
    "tests/gateway_project/backups/test_journey.py",
    "tests/gateway_project/backups/test_kills.py",
    "tests/gateway_project/test_migrate_database.py",
    "tests/gateway_project/test_tracing.py",
    "tests/gateway_project/test_year.py",
    "tests/journeys",
    "tests/redteam/test_headers.py",
    "tests/redteam/test_heads.py",
    "tests/redteam/test_matrix.py",
    "tests/redteam/test_matrix_more.py",
    "tests/redteam/test_proxies.py",
    "tests/redteam/test_raw_sockets.py",
    "tests/redteam/test_reading.py",
    "tests/redteam/test_servers.py",
)
# Dear, and about our own doing, not the database's, which has tests of its own in core/: each test
# runs on one of the two, by its name; ``make soak`` runs all on both. Single tests are marked
# ``either``. Three of five run on the second one, which measures no coverage.
EITHER = (
    "tests/allowlist/test_admin.py",
    "tests/allowlist/test_denied_messages.py",
    "tests/allowlist/test_notices.py",
    "tests/allowlist/test_open_lists.py",
    "tests/allowlist/test_permissions.py",
    "tests/channels_app/admin",
    "tests/channels_app/api",
    "tests/channels_app/bridge",
    "tests/channels_app/client_api",
    "tests/channels_app/delivery",
    "tests/channels_app/http_api",
    "tests/channels_app/intake",
    "tests/channels_app/mcp",
    "tests/channels_app/ops/test_restored.py",
    "tests/channels_app/owner",
    "tests/channels_app/push",
    "tests/channels_app/replies",
    "tests/channels_app/schedules/test_carried_out.py",
    "tests/channels_app/schedules/test_errors.py",
    "tests/channels_app/schedules/test_firing.py",
    "tests/channels_app/schedules/test_firing_edges.py",
    "tests/channels_app/telegram",
    "tests/channels_app/test_changed_credentials.py",
    "tests/channels_app/test_clock.py",
    "tests/channels_app/test_conversations.py",
    "tests/channels_app/tool_requests",
    "tests/channels_app/trace",
    "tests/channels_app/webchat",
    "tests/channels_app/worker/test_account_watcher.py",
    "tests/channels_app/worker/test_mcp_sign_in.py",
    "tests/channels_app/worker/test_mcp_tools.py",
    "tests/channels_app/worker/test_media_bounds.py",
    "tests/channels_app/worker/test_metered_turns.py",
    "tests/channels_app/worker/test_places.py",
    "tests/channels_app/worker/test_runner.py",
    "tests/chaos/test_servers_killed.py",
    "tests/core/agent/test_approvals.py",
    "tests/core/jobs_worker",
    "tests/core/providers/test_chain.py",
    "tests/core/tools/test_schedule.py",
    "tests/gateway_project/backups/test_commands.py",
    "tests/gateway_project/backups/test_drills.py",
    "tests/gateway_project/personal_data/test_forgetting.py::test_x27",
    "tests/gateway_project/updates/test_gateway.py",
    "tests/gateway_project/updates/test_steps.py",
    "tests/models_chaos",
    "tests/redteam/test_any_json.py",
    "tests/redteam/test_canaries.py",
    "tests/redteam/test_codes_in_rows.py",
    "tests/redteam/test_content_types.py",
    "tests/redteam/test_doctor.py",
    "tests/redteam/test_rates.py",
    "tests/redteam/test_rotation.py",
    "tests/redteam/test_small_attacks.py",
    "tests/redteam/test_two_senders.py",
    "tests/redteam/test_versions.py",
    "tests/schedules_chaos/test_clock.py",
    "tests/schedules_chaos/test_kills.py",
    "tests/tools_chaos",
    "tests/upgrades/test_rolling.py",
)
# Quick tests that are dear by their number: of those that begin so, one part of so many runs on a
# day, each by its name; ``make soak`` runs all.
PARTS = {
    "tests/allowlist/test_staff_rights.py": 2,
    "tests/channels_app/admin/test_assistants.py": 2,
    "tests/channels_app/telegram/test_changed_settings.py": 2,
    "tests/channels_app/telegram/test_found_again.py": 2,
    "tests/channels_app/test_every_file.py::test_c6_every_file": 2,
    "tests/channels_app/worker/test_mcp_sign_in.py::test_v74": 3,
    "tests/core/markdown/test_floors.py": 2,
    "tests/redteam/test_any_json.py": 2,
    "tests/redteam/test_matrix.py::test_each_role": 2,
    "tests/redteam/test_two_senders.py::test_another_senders_id": 2,
}
# The dearest slow tests: each runs on one day of DAYS, by its name; ``make soak`` runs all.
DAYS = 6
IN_TURN = (
    "tests/browser",
    "tests/clients",
    "tests/gateway_project/backups",
    "tests/gateway_project/test_migrate_database.py",
    "tests/gateway_project/test_year.py",
    "tests/models_chaos",
)
# Other files with slow tests run all of them on one day of DAYS, but for these; ``make soak`` runs
# all.
EVERY_DAY = (
    "tests/channels_app/http_api/test_inbound.py",
    "tests/channels_app/telegram/test_kills.py",
    "tests/chaos",
    "tests/gateway_project/processes/test_up.py",
    "tests/judges/test_accessibility.py",  # it has a turn of its own
    "tests/upgrades/test_upgrades.py",
)
# Dear files, some with tests that follow each other, and a dear test: whole, on one database, on
# the other one two days later.
ALTERNATING = (
    "tests/channels_app/worker/test_log_folding.py",
    "tests/chaos/test_worker_killed.py",
    "tests/core/database/test_growth.py",
    "tests/core/database/test_query_plans.py::test_ten_thousand",
    "tests/core/database/test_statements.py",
    "tests/gateway_project/updates/test_update.py",
    "tests/schedules_chaos/test_volume.py",
)
# Of tests marked ``alone``: they measure time, so nothing else may run meanwhile.
ALONE = ("tests/judges/test_lighthouse.py",)

T = TypeVar("T")

unsure: list[str] = []
# The last lines of failed steps without tests: at the end of a long run they are found.
complaints: list[str] = []
COMPLAINT_CHARACTERS = 3000


@dataclass(frozen=True)
class Step:
    """One check: its name, its command, and its additions to the environment."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    # The file of failed tests; the same command with ``again`` runs only these, one by one.
    notes: Path | None = None
    again: Sequence[str] = ()


def tool(name: str, *arguments: str) -> list[str]:
    """Return the path of a program of the virtual environment, as a command."""
    return [str(BIN / name), *arguments]


def manage(*arguments: str) -> list[str]:
    """Return the command line of a management command."""
    return [sys.executable, "manage.py", *arguments]


def static_steps(home: str) -> list[Step]:
    """Return the checks that run no tests. ``home``: an empty folder."""
    somewhere = {"GATEWAY_HOME": home, "SECRET_KEY": secrets.token_urlsafe(48)}
    production = {
        **somewhere,
        "GATEWAY_URL": "https://chat.example.org",
        "GATEWAY_TRUSTED_PROXIES": "10.0.0.1",
        "DATABASE_URL": f"sqlite:///{home}/production.sqlite3",
        "REDIS_URL": "redis://:password@redis.example.org:6379/0",
    }
    return [
        Step("format", tool("ruff", "format", "--check", ".")),
        Step("lint", tool("ruff", "check", ".")),
        # Its plugin keeps dependencies in sets: another seed, another order of modules.
        Step("types", tool("mypy"), somewhere | {"PYTHONHASHSEED": "0"}),
        Step("import contracts", tool("lint-imports"), somewhere),
        Step("migrations", manage("makemigrations", "--check", "--dry-run"), somewhere),
        Step("production tables", manage("migrate", "--verbosity", "0"), production),
        Step(
            "production settings",
            manage("check", "--deploy", "--fail-level", "WARNING"),
            production,
        ),
    ]


def test_steps(*, marker: str, coverage: bool, processes: tuple[int, int]) -> list[Step]:
    """pytest with ``-m marker`` on each database, in so many processes (or ``TEST_PROCESSES`` on
    each); ``coverage``: is measured on the first one.

    It doubles what the tests cost, and of our lines a handful is for PostgreSQL alone.
    """
    steps = []
    for database, number in zip(DATABASES, processes, strict=True):
        parallel = ["-n", os.environ.get("TEST_PROCESSES", str(number)), "--dist", "loadfile"]
        # Of files, those with most tests come first, those of one long test last, unless told.
        parallel.append("--no-loadscope-reorder")
        measured = MEASURED if coverage and database == DATABASES[0] else ()
        command = [sys.executable, "-m", "pytest", "-q", "-m", marker, *measured]
        steps.append(tests_on(database, marker, [*command, *parallel], [*command, "--last-failed"]))
    return steps


def tests_on(database: str, marker: str, command: list[str], again: list[str]) -> Step:
    """Return the step that runs the tests on one database."""
    notes = ROOT / ".pytest_cache" / f"{slug(marker)}.{database}"
    is_first = database == DATABASES[0]
    options = ["-o", f"cache_dir={notes}"]
    # In the folders of ONCE single tests may be marked ``unmeasured`` (tests/conftest.py).
    options += [f"--ignore={each}" for each in (ONCE_UNMEASURED if is_first else ())]
    return Step(
        f"tests ({marker}) on {database}",
        [*command, *options],
        {
            "TEST_DATABASE": database,
            # Tests that use no database run on one of the two (tests/conftest.py).
            "TEST_WHICH": "first" if is_first else "second",
            "COVERAGE_FILE": str(ROOT / f".coverage.{slug(marker)}.{database}"),
        },
        notes / "v" / "cache" / "lastfailed",
        [*again, *options, "--cov-append"] if "--cov" in again else [*again, *options],
    )


def alone_step() -> Step:
    """Return the step of the tests that run in one process with nothing beside it, once. They have
    no second look: a test may look again itself.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-m", "alone", *ALONE]
    return Step("tests (alone)", command, {"TEST_DATABASE": DATABASES[0], "TEST_WHICH": "alone"})


@contextmanager
def shared_work() -> Iterator[None]:
    """Let the processes of this block share what each would make for itself: migrated databases
    (tests/templates.py) and, where the environment forbids it beside the modules as many container
    images do, bytecode. A thousand processes would compile what they import, each again.
    """
    with tempfile.TemporaryDirectory(prefix="latchkey-shared-") as folder:
        Path(folder).chmod(0o711)  # PostgreSQL never runs as root
        (Path(folder) / "templates").mkdir()
        os.environ["TEST_POSTGRES_PASSWORD"] = secrets.token_urlsafe(16)
        os.environ["TEST_TEMPLATES"] = str(Path(folder) / "templates")
        if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
            os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
        yield


def of_this_turn(cases: Iterable[T], *, parts: int) -> list[T]:
    """Return one of so many parts of ``cases``, another one each day; all where ``TEST_TURN``
    names no turn, as outside of ``make test`` and in ``make soak``."""
    return [each for place, each in enumerate(cases) if is_in_turn(place, parts=parts)]


def is_in_turn(number: int, *, parts: int, days: int = 1) -> bool:
    """Return whether a case of this number belongs to the part of today, of so many parts that
    last so many days each.
    """
    turn = os.environ.get("TEST_TURN")
    return not turn or number % parts == int(turn) // days % parts


def slug(text: str) -> str:
    """Return ``text`` as part of a file name."""
    return text.replace(" ", "-")


def run(*sequences: Sequence[Step]) -> list[str]:
    """Run sequences of steps in parallel, each in its order, even after a failure; return the
    names of those that failed.

    The output of the first one is shown as it comes, that of the others when a step has ended.
    All end when this process is killed. Failed tests are asked again when nothing else runs.
    """
    with ThreadPoolExecutor(len(sequences)) as pool:
        ran = [pool.submit(run_sequence, each, shown=each is sequences[0]) for each in sequences]
        results = [result for each in ran for result in each.result()]
    return [step.name for step, code in results if code != 0 and not passes_alone(step, code)]


def run_sequence(steps: Sequence[Step], *, shown: bool) -> list[tuple[Step, int]]:
    """Run steps one after another; return their exit codes."""
    for step in steps:
        if step.notes:
            step.notes.unlink(missing_ok=True)
    return [(step, attempt(step, step.name, step.command, shown=shown)) for step in steps]


def passes_alone(step: Step, code: int) -> bool:
    """Return whether the few tests that failed in a step pass one by one."""
    suspects = noted(step) if code == TESTS_FAILED else []
    if not 0 < len(suspects) <= SECOND_LOOK:
        return False
    write(f"These failed beside others and are asked again alone: {', '.join(suspects)}")
    if attempt(step, f"{step.name}, second look", step.again, shown=True) != 0:
        return False
    write("They pass alone. That is a race to be found, in the test or in what it tests.")
    unsure.extend(suspects)
    return True


def attempt(step: Step, name: str, command: Sequence[str], *, shown: bool) -> int:
    """Run one process of a step; return its exit code."""
    if shown:
        write(f"\n=== {name}")
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        code = subprocess.run(
            child.command(*command),
            cwd=ROOT,
            env={**os.environ, **step.env},
            stdin=subprocess.DEVNULL,
            stdout=None if shown else output,
            stderr=None if shown else subprocess.STDOUT,
            check=False,
        ).returncode
        output.seek(0)
        said = "" if shown else f"\n=== {name}\n{output.read()}"
    if code != 0 and not shown and "pytest" not in command:
        complaints.append(f"{name}: {said[-COMPLAINT_CHARACTERS:]}")
    word = "passed" if code == 0 else f"FAILED (exit code {code})"
    write(f"{said}--- {name}: {word} after {time.monotonic() - began:.1f} s")
    return code


def noted(step: Step) -> list[str]:
    """Return the tests that failed; empty where a step has no tests or died before it could note
    them."""
    if step.notes is None or not step.notes.exists():
        return []
    return list(json.loads(step.notes.read_text()))


def run_all() -> int:
    """Run all steps, even after a failure; return the exit code."""
    os.environ.setdefault("TEST_TURN", str(datetime.now(UTC).toordinal()))
    for old in ROOT.glob(".coverage*"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="latchkey-checks-") as home:
        measured, plain = test_steps(marker="not slow", coverage=True, processes=(2, 2))
        failed = run([measured], [*static_steps(home), plain])
        # For two cores: slow tests wait more than they compute (leases, restarts, polls).
        slow = test_steps(marker="slow", coverage=False, processes=(3, 3))
        failed += run(*([step] for step in slow))
        failed += run(
            [
                Step("combine coverage", tool("coverage", "combine", "--quiet")),
                Step("coverage", tool("coverage", "report")),
                alone_step(),
            ]
        )
    if unsure:
        write("\nPassed only at the second look: " + ", ".join(unsure))
    for complaint in complaints:
        write(f"\n{complaint}")
    write("\nFAILED: " + ", ".join(failed) if failed else "\nAll passed.")
    return 1 if failed else 0


# Each death comes ten times, and each unknown sender of the flood; 300 kills around calls of the
# Bot API, ten freezes; forty rounds of overload; minutes of fuzzing; five times as many generated
# texts and interleaved messages; eight processes that spend one budget, fifty calls at once each;
# 500 turns of a day on which models fail, 200 of it with kills; ten times as many rules of
# schedules, 60 clocks that jump while they are due, and 1,000 kills; 1,000 kills around calls of
# tools that ask first; every page in both schemes and widths, and over a slow network; 20 restore
# drills; 20,000 turns among kills, backups, updates and restores.
SOAK = {
    "BROWSER_SLOW": "1",
    "BUDGET_CALLS": "50",
    "BUDGET_ORDERS": "1500",
    "BUDGET_PROCESSES": "8",
    "CHAOS_TIMES": "10",
    "CROSSINGS": "10000",
    "DRILLS": "20",
    "FLOOD_EACH": "10",
    "FREEZES": "10",
    "FUZZ_SECONDS": "180",
    "GENERATED_TEXTS": "20000",
    "JUDGES_ALL": "1",
    "MODEL_TURNS": "500",
    "OVERLOAD_ROUNDS": "40",
    "SCHEDULE_CLOCKS": "60",
    "SCHEDULE_KILLS": "1000",
    "SCHEDULE_RULES": "2000",
    "SOAK_TURNS": "20000",
    "TELEGRAM_KILLS": "300",
    "TEST_EITHER": "both",
    "TEST_TURN": "",
    "TOOL_KILLS": "1000",
}


def long_run_on(database: str) -> Step:
    """Return the step of many turns of one gateway, with what happens to it in a year."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "tests/gateway_project/long_run.py"]
    return Step(f"a long run on {database}", command, {"TEST_DATABASE": database})


def soak() -> int:
    """Run the mutants and the long run once, then the slow and the sampled tests until one fails or
    the time is over; return the exit code."""
    minutes = float(os.environ.get("SOAK_MINUTES", "60"))
    for name, number in SOAK.items():
        os.environ.setdefault(name, number)
    mutants = Step("mutants", [sys.executable, "-m", "tests.mutation"])
    if run([mutants, *map(long_run_on, DATABASES)]):
        return 1
    deadline = time.monotonic() + minutes * 60
    rounds = 0
    while time.monotonic() < deadline:
        rounds += 1
        write(f"\n##### round {rounds}")
        steps = test_steps(marker="slow or sampled", coverage=False, processes=(3, 3))
        if any(run([step]) for step in [*steps, alone_step()]):
            return 1
    write(f"\n{rounds} rounds passed.")
    return 0


def write(text: str) -> None:
    """Print a line of progress."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with shared_work():
        sys.exit(soak() if sys.argv[1:] == ["soak"] else run_all())
