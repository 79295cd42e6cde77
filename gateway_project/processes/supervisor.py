"""Start the processes of one machine, watch them, stop them.

`manage.py up` becomes this program (``exec``) once the database is ready, so that the supervisor
needs no Django. It runs in one thread: the kernel ends the children with the thread that started
them. It becomes `up` again when an update has replaced the code (`holding`).
"""

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from gateway_project import home
from gateway_project.processes import console, holding, listener, plan, preflight, state
from gateway_project.processes.service import Service

TICK_SECONDS = 0.05
IDLE_SECONDS = 5.0
STOP_STAGES = ((("web", "worker"), 7.0), (("model", "broker"), 2.0))
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class Supervisor:
    """The children, in start order, and their states."""

    services: Sequence[Service]
    folder: Path
    url: str
    cwd: Path
    stops: int = field(default=0, init=False)
    held: bool = field(default=False, init=False)
    announced: bool = field(default=False, init=False)
    wake: socket.socket = field(init=False)
    waker: socket.socket = field(init=False)

    def run(self) -> None:
        """Start everything and run until a stop signal, or until an update wants to begin."""
        self.catch_signals()
        self.watch()
        self.stop()

    def watch(self) -> None:
        while not (self.stops or self.held):
            self.step()
            self.wait(self.pause())

    def catch_signals(self) -> None:
        """Install handlers; a signal only wakes the loop."""
        self.wake, self.waker = socket.socketpair()
        self.wake.settimeout(0)
        self.waker.settimeout(0)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(holding.HOLD, self.hold)
        for number in STOP_SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # keep SIGHUP ignored under nohup
                signal.signal(number, self.ask_to_stop)

    def ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.stops += 1

    def hold(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.held = True

    def wait_for_update(self) -> bool:
        """Wait until no update runs any more; return False when a stop signal came first."""
        holding.wait(self.folder, pause=self.wait, is_over=lambda: bool(self.stops))
        return not self.stops

    def wait(self, seconds: float) -> None:
        """Sleep until a signal, a report of a child, or ``seconds`` from now."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake, selectors.EVENT_READ)
            for service in self.services:
                if service.status.state == "starting" and service.pipe is not None:
                    selector.register(service.pipe, selectors.EVENT_READ)
            selector.select(seconds)
        with suppress(BlockingIOError):
            self.wake.recv(4096)

    def pause(self) -> float:
        """Return how long the loop may sleep without missing a due change."""
        states = {service.status.state for service in self.services}
        return TICK_SECONDS if states & {"starting", "waiting", "backing off"} else IDLE_SECONDS

    def step(self) -> None:
        """Check every child once, and store changed states."""
        before = [(service.status.pid, service.status.state) for service in self.services]
        for service in self.services:
            self.look_at(service)
        if before != [(service.status.pid, service.status.state) for service in self.services]:
            self.write_state()

    def look_at(self, service: Service) -> None:
        match service.status.state:
            case "waiting" | "backing off":
                self.start_when_due(service)
            case _ if not service.is_alive():
                self.report_end(service)
            case "starting" if service.became_ready():
                took = time.monotonic() - service.started_at
                console.say(service.name, f"ready after {took:.1f} s (pid {service.status.pid})")
            case "starting" if service.is_stuck():
                console.say(service.name, f"not ready after {service.start_seconds:.0f} s: killed")
                service.kill()

    def start_when_due(self, service: Service) -> None:
        """Start it when its dependencies are ready and its back-off is over."""
        ready = {each.name for each in self.services if each.status.state == "ready"}
        if time.monotonic() < service.start_at or not ready.issuperset(service.needs):
            return
        try:
            service.start(cwd=self.cwd)
        except OSError as error:  # out of processes, memory or disk: may be temporary
            pause = service.back_off()
            console.say(service.name, f"cannot start ({error}); trying again in {pause:.1f} s")

    def report_end(self, service: Service) -> None:
        how, was_starting = service.ended(), service.status.state == "starting"
        service.kill()
        pause = service.back_off()
        console.say(service.name, f"{how}; starting again in {pause:.1f} s")
        for line in service.log_tail():
            console.say(service.name, f"  {line}")
        if was_starting and service.start_without_data():
            console.say(service.name, "cannot use its data: it starts without them")

    def stop(self) -> None:
        """Stop all children: first those that accept work, the broker last. At most 9 seconds."""
        console.say("up", "stopping")
        asked = self.stops
        for names, seconds in STOP_STAGES:
            stage = [service for service in self.services if service.name in names]
            for service in stage:
                service.terminate()
            deadline = time.monotonic() + seconds
            while any(service.is_alive() for service in stage) and self.stops == asked:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self.wait(min(left, TICK_SECONDS))
            for service in stage:
                if service.is_alive():
                    console.say(service.name, "did not stop in time: killed")
                service.finish()
        try:
            state.remove(home=self.folder)
        except OSError as error:  # a disk that has become read-only
            console.say("up", f"cannot remove {state.path(self.folder)}: {error.strerror}")
        console.say("up", "stopped")

    def write_state(self) -> None:
        """Store the state for `footprint`; announce the address once when all is ready."""
        processes = {service.name: service.status for service in self.services}
        known = state.State(pid=os.getpid(), url=self.url, processes=processes)
        try:
            state.write(home=self.folder, state=known)
        except OSError as error:  # a full disk must not stop the running processes
            console.say("up", f"cannot write {state.path(self.folder)}: {error.strerror}")
        if not self.announced and plan.is_usable(self.services):
            self.announced = True
            plan.announce(url=self.url, services=self.services)


def main() -> int:
    """Run the gateway of ``GATEWAY_HOME`` until a signal. Returns the exit code."""
    console.settle()
    folder, again = home.directory(), False
    try:
        with (
            preflight.lock(folder),
            listener.listen(host=plan.host(), port=plan.port()) as listening,
        ):
            url = plan.url(port=listening.getsockname()[1])
            services = plan.services(folder=folder, url=url, listening=listening)
            supervisor = Supervisor(services=services, folder=folder, url=url, cwd=home.BASE_DIR)
            supervisor.run()
            if supervisor.held and not supervisor.stops:
                listening.close()
                again = supervisor.wait_for_update()
        if again:
            holding.go_back(folder)
            holding.become_up()
    except preflight.StartError as error:
        console.say("up", f"cannot start: {error}")
        return 1
    except KeyboardInterrupt:  # before its signals are caught
        console.say("up", "stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
