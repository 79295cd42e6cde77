"""Long tasks through real processes: every endpoint, a stop, and ``kill -9`` of the worker."""

import json
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.jobs_worker.work import TOO_MUCH_MEMORY
from tests.channels_app.client import Client, people, query
from tests.channels_app.socket_client import Socket
from tests.core.jobs_worker import papers
from tests.core.jobs_worker.points import POINTS
from tests.core.jobs_worker.test_asked import ASKED, CALL, WAYS
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
TIMES = int(os.environ.get("CHAOS_TIMES", "3"))
MASTERS = 4  # workers that die beside each other
AT_ONCE = 12  # jobs, so that a worker finds another one while the lease of a dead one runs out
SILENT_SECONDS = 12  # how long the model thinks about the last part
RULES: list[dict[str, Any]] = [
    {"match": "hang", "steps": [{"tool": "route_to_plugin", "arguments": {**CALL, "parameters": {"topic": "hang"}}}]},
    {"match": "greedy", "steps": [{"tool": "route_to_plugin", "arguments": {**CALL, "parameters": {"topic": "greedy"}}}]},
    {"match": "Summarize the document", "steps": [{"text": "More wind, less cost (page 12)."}]},
    {"match": "(?s)Summarize this part.*page 300", "steps": [{"sleep": SILENT_SECONDS}, {"text": "The end (page 300)."}]},
    {"match": "Summarize this part", "steps": [{"text": "More wind (page 3)."}]},
    {"match": "summarize", "steps": [{"text": "I am working on it, this needs some time."}]},
    {"match": "PPT.*calls", "steps": WAYS["calls the tool"]},
    {"match": "PPT.*promises", "steps": WAYS["promises"]},
    {"match": "PPT.*writes", "steps": WAYS["writes the call"]},
    {"match": "PPT", "steps": WAYS["calls the tool"]},
]  # fmt: skip
QUICK = {
    "RATE_PER_MINUTE_USER": "0",
    "RATE_PER_MINUTE_ADDRESS": "0",
    "RUN_LEASE_SECONDS": "3",
    "SWEEP_SECONDS": "1",
    "LOG_LEVEL": "WARNING",
    "LONG_WORKERS": "1",
    "LONG_MASTERS": str(MASTERS),
}


def halves(jobs: Path) -> list[str]:
    """Return the unfinished files of running jobs. The worker may remove a folder meanwhile."""
    return [folder for folder, _, names in os.walk(jobs) if "half.bin" in names]


@dataclass
class Setup:
    """A gateway whose ``long`` workers die on order."""

    gateway: Gateway
    ada: Client
    folder: Path

    def order(self, point: str, number: int) -> None:
        """Make one job die at ``point``, with its worker."""
        (self.folder / "orders" / f"{point}.{number}").touch()

    def deaths(self) -> Counter[str]:
        """Return how many jobs died at which point."""
        return Counter(each.read_text() for each in (self.folder / "deaths").iterdir())

    def workers(self) -> list[psutil.Process]:
        """Return the ``long`` workers that are alive."""
        return psutil.Process(self.gateway.pid("long")).children()

    def ask(self, sql: str) -> list[Any]:
        return list(query(self.gateway, sql))


@pytest.fixture(scope="module")
def setup(
    module_gateways: Callable[..., Gateway],
    tmp_path_factory: pytest.TempPathFactory,
    new_database: Any,
) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("long")
    (folder / "home").mkdir()
    script = folder / "script.json"
    script.write_text(json.dumps(RULES))
    gateway = Gateway(
        folder=folder,
        database_url=new_database(),
        extra={"LLM_SCRIPT": str(script), "CHAOS_FOLDER": str(folder), **QUICK},
        roles=("web", "runs", "long"),
        modules={
            "long": ("tests.core.jobs_worker.dying_worker",),
            "runs": ("tests.core.jobs_worker.runs_worker",),
        },
    )
    ada = people(gateway, number=1)[0]
    gateway.start()
    yield Setup(gateway, ada, folder)
    gateway.stop()


def has_ended(setup: Setup, run: str) -> bool:
    """Return whether a run has its answer."""
    return setup.ada.result(run).status != 202


def answered(setup: Setup, run: str) -> None:
    """Wait for the end of a run, by its row: requests would add load to the gateway."""
    row = f"SELECT 1 FROM core_run WHERE public_id = '{run}' AND finished_at IS NOT NULL"
    wait_until(lambda: setup.ask(row), seconds=120, what="the answer")


def link_in(text: str) -> str:
    """Return the one link in an answer, as a path."""
    found = [word for word in text.split() if "/files/out?token=" in word]
    assert len(found) == 1, text
    return found[0][found[0].index("/files/") :]


@pytest.mark.parametrize("way", ["calls", "promises", "writes"])
def test_l1_l3_every_http_endpoint_gets_one_file_and_one_link(setup: Setup, way: str) -> None:
    words = f"{ASKED} ({way})"
    answer = setup.ada.say(words)
    assert (answer.status, answer.body["format"]) == (200, "link")
    opened = Client(setup.gateway, "").get(link_in(answer.body["text"]))
    assert opened.status == 200
    assert opened.raw.startswith(b"renewable energy")
    assert "attachment" in opened.headers["content-disposition"]
    events = setup.ada.stream("POST", "/inbound", {"text": words, "stream": True})
    told = [each.data for each in events]
    assert told[0]["message"] == "Processing your request…"
    lines = [(each["message"], each["tool"]) for each in told if each["event"] == "progress"]
    assert ("Generating your presentation…", "route_to_plugin") in lines
    assert [each["event"] for each in told].count("done") == 1
    assert told[-1]["format"] == "link"
    link_in(told[-1]["text"])
    with Socket(setup.gateway, setup.ada.token) as socket:
        run, _ = socket.say(words, client_id=f"c-{way}")
        socket.until_final(run)
        link_in(socket.text(run))
        final = socket.seen[run][-1]
        assert [each["name"] for each in final["files"]] == [final["files"][0]["name"]]
        assert any(
            frame["type"] == "event" and frame["props"].get("event") == "progress"
            for frame in socket.seen[run]
        )


def test_l2_stop_ends_the_process_of_a_job_and_its_files_go(setup: Setup) -> None:
    run = setup.ada.start("hang")
    jobs = setup.folder / "home" / "files" / "jobs"
    wait_until(lambda: halves(jobs), what="a job on its way")
    working = psutil.Process(setup.gateway.pid("long")).children(recursive=True)
    assert setup.ada.post("/inbound/cancel", {"run_id": run}).status == 200
    wait_until(lambda: setup.ada.result(run).status == 409, what="the end of the run")
    wait_until(lambda: not halves(jobs), what="the removal of its files")
    assert setup.ask("SELECT state FROM core_job ORDER BY id DESC LIMIT 1") == [("cancelled",)]
    seconds = seconds_to_stop(setup, run)
    print(f"stopped {seconds:.1f} s after it was asked to")
    assert seconds < 3
    wait_until(
        lambda: any(not each.is_running() for each in working), what="the end of the process"
    )


def test_l2_a_job_that_takes_too_much_memory_fails_with_words(setup: Setup) -> None:
    run = setup.ada.start("greedy")
    wait_until(partial(has_ended, setup, run), seconds=120, what="the end of the run")
    [(error,)] = setup.ask("SELECT error FROM core_job ORDER BY id DESC LIMIT 1")
    assert error == TOO_MUCH_MEMORY


def test_l2_a_worker_that_is_stopped_leaves_its_job_to_the_next(setup: Setup) -> None:
    """At once, not when the lease ends, and without a process."""
    jobs = setup.folder / "home" / "files" / "jobs"
    run = setup.ada.start("hang")
    wait_until(lambda: halves(jobs), what="a job on its way")
    working = psutil.Process(setup.gateway.pid("long")).children(recursive=True)
    setup.gateway.kill("long", signal.SIGTERM)
    assert not any(each.is_running() for each in working)
    state = "SELECT state, attempt FROM core_job ORDER BY id DESC LIMIT 1"
    assert setup.ask(state) == [("queued", 1)]
    assert not halves(jobs)
    setup.gateway.restart("long")
    wait_until(lambda: halves(jobs), what="the job on its way again")
    assert setup.ask(state) == [("running", 2)]
    assert setup.ada.post("/inbound/cancel", {"run_id": run}).status == 200
    wait_until(partial(has_ended, setup, run), what="the end of what was stopped")
    wait_until(lambda: not halves(jobs), what="the removal of its files")


def seconds_to_stop(setup: Setup, run: str) -> float:
    """Return the seconds from the stop's arrival to the run's end, by the database's own stamps."""
    [(asked, ended)] = setup.ask(
        f"SELECT cancel_requested_at, finished_at FROM core_run WHERE public_id = '{run}'"
    )
    instants = [
        each if isinstance(each, datetime) else datetime.fromisoformat(each)
        for each in (asked, ended)
    ]
    return (instants[1] - instants[0]).total_seconds()


@dataclass
class Meter:
    """The maximum memory (PSS, bytes) of a process with its descendants."""

    root: psutil.Process
    most: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.over.wait(0.05):
            family = [self.root, *self.root.children(recursive=True)]
            self.most = max(self.most, sum(map(proportional_bytes, family)))


def proportional_bytes(process: psutil.Process) -> int:
    """Return a process's PSS: its private memory and its share of shared memory; 0 when it has
    ended.
    """
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def test_l1_three_hundred_pages_within_600_mb_and_never_silent(setup: Setup) -> None:
    """The memory of the whole ``long`` worker (its children, the job, the reader of documents)
    while it reads and summarizes. The model is silent for a while: then only the heartbeat
    reports. Its period is tested by ``test_resumed``; here its lines must be there, at least one
    in 5 s.
    """
    words = "The wind farm made {} MWh more than the year before, and the town paid less for it. "
    pages = [
        f"Chapter {number}. " + "".join(words.format(number * line) for line in range(1, 31))
        for number in range(1, 301)
    ]
    document = papers.pdf(pages)
    sent = setup.ada.call("POST", "/files?name=report.pdf", document)
    assert sent.status == 201, sent.raw
    meter = Meter(psutil.Process(setup.gateway.pid("long")))
    watching = threading.Thread(target=meter.watch)
    watching.start()
    try:
        run = setup.ada.start("Please summarize this PDF", files=[sent.body["id"]])
        wait_until(partial(has_ended, setup, run), seconds=120, what="the summary")
    finally:
        meter.over.set()
        watching.join()
    answer = setup.ada.result(run)
    assert answer.status == 200
    sources = "**Sources**\n\n1. report.pdf, page 1-300"
    assert answer.body["text"].endswith(f"More wind, less cost (page 12).\n\n{sources}")
    events = [json.loads(data) for (data,) in setup.ask(
        "SELECT e.data FROM core_runevent e JOIN core_run r ON e.run_id = r.id "
        f"WHERE r.public_id = '{run}' ORDER BY e.seq"
    )]  # fmt: skip
    told = [each for each in events if each["props"].get("event") == "progress"]
    heartbeats = [
        int(found[1])
        for each in told
        if (found := re.search(r"\((\d+) s\)$", each["props"]["message"]))
    ]
    print(f"at most {meter.most / 1e6:.0f} MB; {len(told)} lines, heartbeats after {heartbeats} s")
    assert 30_000_000 < meter.most < 600_000_000
    assert len(heartbeats) >= SILENT_SECONDS // 5


def test_l2_waiting_jobs_start_after_every_worker_died(setup: Setup) -> None:
    """Wake-ups that dead workers had taken are not needed; the jobs of a worker die with it."""
    jobs = setup.folder / "home" / "files" / "jobs"
    hanging = [setup.ada.start("hang") for _ in range(MASTERS)]
    wait_until(lambda: len(halves(jobs)) == MASTERS, what="as many jobs on their way")
    waiting = [setup.ada.start(f"{ASKED} no. {number}") for number in range(2 * MASTERS)]
    of_these = f"FROM core_job j JOIN core_run r ON j.run_id = r.id WHERE r.public_id IN ({quoted(waiting)})"
    wait_until(
        lambda: setup.ask(f"SELECT count(*) {of_these}") == [(len(waiting),)], what="their jobs"
    )
    began = time.monotonic()
    working = [each for worker in setup.workers() for each in worker.children(recursive=True)]
    assert len(working) >= MASTERS
    for each in setup.workers():
        each.kill()
    wait_until(lambda: not any(each.is_running() for each in working), what="the end of the jobs")
    for run in hanging:
        setup.ada.post("/inbound/cancel", {"run_id": run})
    for run in waiting:
        wait_until(partial(has_ended, setup, run), seconds=60, what="the answer")
        link_in(setup.ada.result(run).body["text"])
    print(
        f"{len(waiting)} jobs were over {time.monotonic() - began:.1f} s after their workers died"
    )
    for run in hanging:
        wait_until(partial(has_ended, setup, run), what="the end of what was stopped")
    wait_until(lambda: not halves(jobs), what="the removal of its files")


def quoted(runs: Iterable[str]) -> str:
    """Return a text quoted for SQL."""
    return ", ".join(f"'{run}'" for run in runs)


def test_l2_one_file_and_one_answer_wherever_the_worker_dies(setup: Setup) -> None:
    for point in POINTS:
        for number in range(TIMES):
            setup.order(point, number)
    began = time.monotonic()
    runs: list[str] = []
    for number in range(TIMES * len(POINTS)):
        if number >= AT_ONCE:
            answered(setup, runs[number - AT_ONCE])
        runs.append(setup.ada.start(f"{ASKED} no. {number}"))
    for run in runs:
        answered(setup, run)
    print(f"{len(runs)} deaths in {time.monotonic() - began:.0f} s")
    assert setup.deaths() == dict.fromkeys(POINTS, TIMES)
    for run in runs:
        answer = setup.ada.result(run)
        assert answer.status == 200
        link_in(answer.body["text"])
    assert_one_of_each(setup, runs)


def assert_one_of_each(setup: Setup, runs: list[str]) -> None:
    """Assert that each run has one job, which succeeded, one file, one answer and one end."""
    runs_of = f"JOIN core_run r ON x.run_id = r.id WHERE r.public_id IN ({quoted(runs)})"
    for what in (
        f"core_job x {runs_of} AND x.state = 'succeeded'",
        f"core_job x {runs_of}",
        f"core_storedfile x {runs_of}",
        f"core_message x {runs_of} AND x.role = 'assistant'",
        f"core_runevent x {runs_of} AND x.data LIKE '%%\"stream_end\"%%'",
    ):
        found = setup.ask(f"SELECT r.public_id, count(*) FROM {what} GROUP BY r.public_id")
        assert sorted(found) == sorted((run, 1) for run in runs), what
    kept = (setup.folder / "home" / "files" / "jobs").rglob("*.pptx")
    stored = setup.ask("SELECT count(*) FROM core_storedfile WHERE origin = 'made'")
    assert len(list(kept)) == stored[0][0]
