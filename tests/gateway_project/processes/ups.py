"""Start `manage.py up` as its own process, the way a person does."""

import os
import re
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT, CompletedProcess, run
from urllib.request import urlopen

import psutil

from core.lib import child
from gateway_project.home import BASE_DIR
from gateway_project.processes import state
from tests.gateways import OURS
from tests.servers import Process, wait_until

START_SECONDS = 240.0
MAKE_KEY = (
    "from gateway_project import installation; from allowlist import keys; "
    "owner, _ = installation.ensure_owner(); "
    "print(keys.create(name='test', user=owner, scopes=['inbound', 'chat'])[1])"
)
LINK = re.compile(r"^ +(http://\S+/sign-in/\S+)$", re.MULTILINE)


@dataclass
class Up:
    """One gateway started by `manage.py up` on a port of its own, with the scripted model."""

    folder: Path
    extra: dict[str, str] = field(default_factory=dict)
    code: Path = BASE_DIR
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the command."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = child.command(sys.executable, str(self.code / "manage.py"), "up")
        log = self.folder / "up.log"
        self.process = Process(command=command, log=log, env=self.env, terminal=True)

    @property
    def home(self) -> Path:
        """Return its GATEWAY_HOME."""
        return self.folder / "home"

    @property
    def base_url(self) -> str:
        """Return its address, while it runs."""
        return self.state().url

    @property
    def database_url(self) -> str:
        """Return the address of its database, which the test has set."""
        return self.extra["DATABASE_URL"]

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of a fresh machine, and what the test sets."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith((*OURS, "SECRET"))}
        ours = {"GATEWAY_HOME": str(self.home), "GATEWAY_PORT": "0", "LLM_PROVIDER": "scripted"}
        return {**inherited, **ours, **self.extra}

    def start(self) -> None:
        """Start it; return when it has printed its address and all processes are ready."""
        self.process.start()
        self.process.wait_ready(lambda: LINK.search(self.output()), seconds=START_SECONDS)
        self.wait_all_ready()

    def wait_all_ready(self) -> None:
        """Wait until every process is ready."""
        self.process.wait_ready(
            lambda: (
                (known := state.read(self.home)) is not None
                and {each.state for each in known.processes.values()} == {"ready"}
            ),
            seconds=START_SECONDS,
        )

    def output(self) -> str:
        """Return all that it printed."""
        return self.process.tail(characters=1_000_000)

    def link(self) -> str:
        """Return the sign-in address it printed."""
        found = LINK.search(self.output())
        assert found is not None
        return found[1]

    def state(self) -> state.State:
        """Return the stored state of the supervisor."""
        known = state.read(self.home)
        assert known is not None
        return known

    def pid(self, name: str) -> int:
        """Return the pid of one of its processes; 0 when it does not run."""
        return self.state().processes[name].pid

    def family(self) -> list[psutil.Process]:
        """Return the supervisor and everything below it."""
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def get(self, path: str) -> int:
        """Return the status of a GET."""
        with urlopen(f"{self.state().url}{path}", timeout=200) as answer:  # noqa: S310
            return int(answer.status)

    def kill(self, name: str) -> int:
        """SIGKILL one of its processes; wait until another one is ready; return the old pid."""
        before = self.pid(name)
        os.kill(before, signal.SIGKILL)
        wait_until(
            lambda: (
                self.pid(name) not in {0, before} and self.state().processes[name].state == "ready"
            ),
            seconds=START_SECONDS,
            what=f"a new {name}",
        )
        return before

    def manage(self, *arguments: str) -> str:
        """Run `manage.py` on the same home; its output. A failure raises."""
        done = manage(*arguments, env=self.env, code=self.code)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def make_key(self) -> str:
        """Return a new key of the owner."""
        made = self.manage("shell", "--no-imports", "-c", MAKE_KEY)
        return next(word for word in made.split() if word.startswith("lk_"))


def manage(*arguments: str, env: dict[str, str], code: Path = BASE_DIR) -> CompletedProcess[str]:
    """Run `manage.py`; output and errors are in ``stdout``."""
    return run(
        [sys.executable, str(code / "manage.py"), *arguments],
        env=env,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
        check=False,
        timeout=START_SECONDS,
    )


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those that still run; an unreaped zombie has ended."""
    return [each for each in processes if is_living(each)]


def is_living(process: psutil.Process) -> bool:
    """Return whether a process runs."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
