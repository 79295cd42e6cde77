"""A supervisor that runs while its clone is updated [X15] [X17] [X18]."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from allowlist import audit
from core.files import storage
from core.models import Backup, ChannelAccount, Delivery, InboundMessage, User, WorkerHeartbeat
from gateway_project.processes import holding, preflight, state
from gateway_project.processes.state import ProcessState, State
from gateway_project.updates import clone, gateway, updating, way_back
from gateway_project.updates.clone import Target, UpdateError
from gateway_project.updates.updating import Held
from tests.gateway_project.updates.origins import git
from tests.gateway_project.updates.small import NEWER, WEB, Small, finding, sql
from tests.servers import Process, python, wait_until
from tests.settings import TEST_DATABASE

# The doctor of a version that is well until its gateway runs.
ILL_LATER = """
if test -e "$GATEWAY_HOME/run/state.json"; then
    {also}
    cat ill.json
else
    echo '[]'
fi
"""
ILL = {**NEWER, "ill.json": finding("new", "This is new."), "doctor.sh": ILL_LATER.format(also="")}
# A person writes to it: one more row like the first.
MESSAGE = sql(
    "CREATE TEMPORARY TABLE written AS SELECT * FROM core_inboundmessage",
    "UPDATE written SET id = id + 1",
    "INSERT INTO core_inboundmessage SELECT * FROM written",
)
# It notes that it works on a copy of the database.
NOTES_A_COPY = """
case "$GATEWAY_HOME" in
*/run/*) touch "$GATEWAY_HOME/../../on-a-copy" ;;
esac
"""
HEARS_NOTHING = "import time; print(flush=True); time.sleep(1000)"
DOES_NOT_STOP = (
    f"import signal; signal.signal({int(holding.HOLD)}, lambda *_: None); {HEARS_NOTHING}"
)


@pytest.fixture
def running(small: Small, installed: Path, tmp_path: Path) -> Iterator[Process]:
    """Return the supervisor of the installation, whose processes are ready."""
    command = python("tests.gateway_project.updates.supervised", str(small.code))
    process = Process(
        command=command, log=tmp_path / "up.log", env=dict(os.environ), cwd=Path.cwd()
    )
    process.start()
    wait_until(lambda: gateway.is_ready(installed), what=process.tail)
    yield process
    process.stop()


def in_place(folder: Path) -> tuple[Target, Held]:
    """Put the newest version in place, as the command does; return it, and the gateway that was
    held, when that is ready."""
    target = clone.find("")
    assert target is not None
    file = holding.lock(folder)
    assert file is not None
    with file:
        held = updating.carry_out(folder, target, [], say=str)
    assert held is not None
    wait_until(lambda: gateway.is_ready(folder))
    return target, held


def test_x15_the_supervisor_goes_on_with_the_new_code(
    small: Small, installed: Path, running: Process
) -> None:
    """[X15] [X16] It has migrated a copy first."""
    web = f'touch "$GATEWAY_HOME/new-web"\n{WEB}'
    small.commit("New", {**NEWER, "web.sh": web, "migrate.sh": NOTES_A_COPY})
    before, out = state.read(installed), StringIO()
    assert before is not None
    call_command("update", stdout=out)
    said = out.getvalue().splitlines()
    assert said[0].endswith("0.2.0, 1 change")
    [backup] = Backup.objects.all()
    assert said[1] == f"backup {installed}/backups/{backup.name}, checked"
    assert (installed / "on-a-copy").exists() is (TEST_DATABASE == "sqlite")
    assert said[-3:] == [
        "the gateway is stopped",
        "version 0.2.0 is in place",
        "the gateway works again",
    ]
    after = state.read(installed)
    assert after is not None
    assert (after.pid, before.pid) == (running.pid, running.pid)
    assert after.processes["web"].pid != before.processes["web"].pid
    assert (installed / "new-web").exists()
    assert gateway.held_by(installed) == 0


@pytest.mark.parametrize("said", [ILL["ill.json"], "no words of a doctor"])
def test_x17_a_version_that_does_not_work_well_leaves_the_old_one(
    small: Small, installed: Path, running: Process, said: str
) -> None:
    """[X17] Its doctor finds a new error when it runs, or fails; the same supervisor goes on with
    the old code."""
    small.commit("New", {**ILL, "ill.json": said})
    target, held = in_place(installed)
    assert small.version() == "0.2.0"
    with pytest.raises(UpdateError, match=r"The old version is back: 0.2.0 did not get ready"):
        updating.look_after(installed, target, [], held, wait=0, say=str)
    wait_until(lambda: gateway.is_ready(installed), what=running.tail)
    assert small.is_old()
    assert not way_back.put_aside(installed).exists()


def test_x17_an_error_that_was_there_before_is_none_of_the_new_version(
    small: Small, installed: Path, running: Process
) -> None:
    """[X17]"""
    told: list[str] = []
    small.commit("New", ILL)
    target, held = in_place(installed)
    known = [("new", "It is known.")]
    updating.look_after(installed, target, known, held, wait=0, say=told.append)
    assert told == ["the gateway works again"]
    assert gateway.is_ready(installed), running.tail()


def test_x17_a_channel_that_did_not_work_before_does_not_undo_an_update(
    small: Small, installed: Path, running: Process
) -> None:
    """[X17] Nor what else the doctor says of the moment: the copy is not asked for that, the
    gateway that runs again is."""
    broken = {"doctor.json": finding("channel", "telegram/main does not work.")}
    small.commit("The bot was revoked", broken)
    git(small.code, "pull", "--quiet")
    small.commit("New", NEWER)
    out = StringIO()
    call_command("update", wait=20, stdout=out)
    assert out.getvalue().splitlines()[-1] == "the gateway works again"
    assert small.version() == "0.2.0"


def test_x17_a_version_that_people_have_written_to_stays(
    small: Small, installed: Path, running: Process
) -> None:
    """[X17] The command names a script that brings the old one back, without what came since."""
    account = ChannelAccount.objects.create(channel="memory", name="one")
    InboundMessage.objects.create(account=account, received_at=timezone.now())
    small.commit("New", {**ILL, "doctor.sh": ILL_LATER.format(also=MESSAGE)})
    target, held = in_place(installed)
    with pytest.raises(UpdateError) as caught:
        updating.look_after(installed, target, [], held, wait=0, say=str)
    assert "it has worked for people meanwhile, and stays" in str(caught.value)
    assert small.version() == "0.2.0"
    assert InboundMessage.objects.count() == 2
    connections.close_all()
    running.stop()
    script = way_back.put_aside(installed)
    assert f"`sh {script}` brings the old version back" in str(caught.value)
    subprocess.run(["/bin/sh", str(script)], check=True)
    assert small.is_old()
    assert InboundMessage.objects.count() == 1
    assert not script.exists()


def test_x18_a_supervisor_undoes_an_update_that_was_cut_off(
    small: Small, installed: Path, running: Process
) -> None:
    """[X18] The updater is gone, and with it its lock, after the code was replaced."""
    small.commit("New", NEWER)
    target = clone.find("")
    assert target is not None
    file = holding.lock(installed)
    assert file is not None
    with file, gateway.stopped(installed) as ran:
        assert ran
        assert gateway.held_by(installed) == running.pid
        assert state.read(installed) is None
        assert "an update replaces the code" in running.tail()
        clone.keep_environment(target)
        way_back.write(installed, version="0.1", lines=clone.lines_back(target))
        clone.replace(target)
        assert small.version() == "0.2.0"
        assert not gateway.is_ready(installed)
    wait_until(lambda: gateway.is_ready(installed), what=running.tail)
    assert small.is_old()
    assert not holding.way_back(installed).exists()


@pytest.mark.parametrize(
    ("name", "queue", "found"),
    [
        ("host:12:1764000000", "runs", ("host", 12)),
        ("long:host:12", "long", ("host", 12)),
        ("web host", "web", ("host", 0)),
        ("runs:12:1764000000", "runs", ("runs", 12)),
        ("long:12:1764000000", "runs", ("long", 12)),
        ("long:web:12", "long", ("web", 12)),
    ],
)
def test_x19_the_machine_and_the_process_of_a_worker(
    name: str, queue: str, found: tuple[str, int]
) -> None:
    """[X19] Also where the machine is called as a queue is."""
    assert gateway.host_and_pid(WorkerHeartbeat(name=name, queue=queue)) == found


def test_x17_a_gateway_that_starts_or_stops_is_not_touched(own_home: Path) -> None:
    """[X17] It has the lock of its home, and no state yet."""
    with (
        preflight.lock(own_home),
        pytest.raises(UpdateError, match="starting or stopping: try again"),
        gateway.stopped(own_home),
    ):
        pytest.fail("it is stopped")


@pytest.mark.parametrize(
    ("code", "said"),
    [(HEARS_NOTHING, "runs older code"), (DOES_NOT_STOP, "did not stop in time")],
    ids=["older", "stuck"],
)
def test_x17_a_gateway_that_cannot_be_held(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    """[X17] The signal would end one of older code, which does not know it."""
    monkeypatch.setattr(gateway, "HOLD_SECONDS", 0)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    with process, preflight.lock(own_home):
        try:
            assert process.stdout is not None
            process.stdout.readline()
            holding.held_mark(own_home).write_text(str(process.pid))  # of before a power cut
            web = ProcessState(pid=process.pid, state="ready")
            known = State(pid=process.pid, url="http://here", processes={"web": web})
            state.write(home=own_home, state=known)
            with pytest.raises(UpdateError, match=said), gateway.stopped(own_home):
                pytest.fail("it is stopped")
            assert process.poll() is None
        finally:
            process.kill()


def test_x17_no_gateway_starts_while_one_is_updated_that_did_not_run(own_home: Path) -> None:
    """[X17]"""
    with gateway.stopped(own_home) as ran:
        assert not ran
        with pytest.raises(preflight.StartError, match="another gateway"):
            preflight.lock(own_home)
    preflight.lock(own_home).close()


def accept(account: ChannelAccount) -> None:
    """Accept a message."""
    InboundMessage.objects.create(account=account, received_at=timezone.now())


def deliver(account: ChannelAccount) -> None:
    """Begin to send an answer that waited during the update."""
    Delivery.objects.filter(account=account).update(claimed_at=timezone.now())


@pytest.mark.parametrize("work", [accept, deliver])
def test_x17_work_of_the_new_version_while_the_old_one_is_brought_back(
    small: Small,
    installed: Path,
    running: Process,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[ChannelAccount], None],
) -> None:
    """[X17] Just before it is stopped: the old database would lose a message, or send an answer
    twice."""
    account = ChannelAccount.objects.create(channel="memory", name="one")
    Delivery.objects.create(account=account, dedupe_key="k", target={}, payload={})

    def settled(folder: Path, pid: int) -> bool:
        assert (folder, pid) == (installed, running.pid)
        work(account)
        connections.close_all()
        return True

    monkeypatch.setattr(gateway, "is_settled", settled)
    small.commit("New", ILL)
    target, held = in_place(installed)
    with pytest.raises(UpdateError, match="it has worked for people meanwhile, and stays"):
        updating.look_after(installed, target, [], held, wait=0, say=str)
    wait_until(lambda: gateway.is_ready(installed), what=running.tail)
    assert small.version() == "0.2.0"
    assert way_back.put_aside(installed).exists()


def decide(owner: User) -> None:
    """Let an unknown sender in, as any decision of an owner, which the audit has."""
    audit.record(actor=owner.username, action="request.approve", now=timezone.now())


def save(owner: User) -> None:
    """Save a form of the admin."""
    LogEntry.objects.log_actions(owner.pk, [owner], CHANGE, single_object=True)


def upload(owner: User) -> None:
    """Upload a file, which no message names yet."""
    storage.keep(user=owner, name="a.txt", content=b"a")


@pytest.mark.parametrize("work", [decide, save, upload])
def test_x17_changes_and_decisions_without_a_message_are_not_undone_either(
    installed: Path, work: Callable[[User], None]
) -> None:
    """[X17] The old database would not know it. Looking at the new version is no work."""
    del installed
    owner = User.objects.create(username="owner", is_owner=True)
    held = Held(1, gateway.newest())
    for action in ("sign_in", "sign_in.refused", "file.opened", audit.BLANKED):
        audit.record(actor="owner", action=action, now=timezone.now())
    updating.refuse_after_work(held)
    work(owner)
    with pytest.raises(UpdateError, match="it has worked for people meanwhile, and stays"):
        updating.refuse_after_work(held)


def test_x17_a_gateway_that_has_ended_is_not_waited_for(
    small: Small, installed: Path, running: Process
) -> None:
    """[X17] The new version fails before it starts any process. The owner hears that nothing
    runs."""
    small.commit("New", NEWER)
    target, held = in_place(installed)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    with pytest.raises(
        UpdateError, match=r"The old version is back.*No gateway ran in that moment"
    ):
        updating.look_after(installed, target, [], held, wait=600, say=str)
    assert small.is_old()


def test_x17_a_gateway_that_starts_for_ever_is_not_undone(
    small: Small, installed: Path, running: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X17] The command names the script to be run when nothing runs."""
    monkeypatch.setattr(gateway, "START_SECONDS", 0)
    small.commit("New", NEWER)
    target, held = in_place(installed)
    running.stop()
    with preflight.lock(installed), pytest.raises(UpdateError) as caught:
        updating.look_after(installed, target, [], replace(held, pid=os.getpid()), wait=0, say=str)
    script = way_back.put_aside(installed)
    assert "it is still starting, and stays" in str(caught.value)
    assert f"`sh {script}` brings the old version back, when nothing runs." in str(caught.value)
    assert script.exists()
    assert small.version() == "0.2.0"


def test_x17_a_gateway_whose_processes_end_again_and_again_is_failing(own_home: Path) -> None:
    """[X17] Not the model, which may be too large for this machine in each version."""
    for model, web, expected in ((9, 0, False), (0, 1, False), (0, 4, True)):
        processes = {"model": ProcessState(restarts=model), "web": ProcessState(restarts=web)}
        known = State(pid=os.getpid(), url="http://here", processes=processes)
        state.write(home=own_home, state=known)
        assert gateway.is_failing(own_home, os.getpid()) is expected


def test_x17_a_gateway_is_ready_when_all_that_people_need_is(own_home: Path) -> None:
    """[X17] Not the model, which may take minutes."""
    for model, web, expected in (
        ("starting", "ready", True),
        ("ready", "starting", False),
        ("ready", "backing off", False),
    ):
        processes = {"model": ProcessState(state=model), "web": ProcessState(state=web)}
        known = State(pid=os.getpid(), url="http://here", processes=processes)
        state.write(home=own_home, state=known)
        assert gateway.is_ready(own_home) is expected


def test_x18_a_mark_that_is_none(own_home: Path) -> None:
    """[X18] It was cut off while it was written."""
    assert gateway.held_by(own_home) == 0
    holding.held_mark(own_home).write_text("")
    assert gateway.held_by(own_home) == 0


def test_x18_a_supervisor_that_cannot_say_that_it_waits_goes_on(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[X18] As on a disk that the update has filled: its processes have been stopped."""
    holding.held_mark(own_home).mkdir()
    update = holding.lock(own_home)
    assert update is not None
    with update:
        holding.wait(own_home, pause=lambda _: pytest.fail("it waits"), is_over=lambda: False)
    assert "cannot wait for an update" in capsys.readouterr().out


def test_x18_a_start_waits_for_the_end_of_an_update(own_home: Path) -> None:
    """[X18] It would bring the old version back beside the updater."""
    script = holding.way_back(own_home)
    script.write_text("exit 1")
    file = holding.lock(own_home)
    assert file is not None
    with file, pytest.raises(preflight.StartError, match="wait for its end"):
        holding.go_back(own_home)


def test_x18_a_way_back_that_fails_is_there_to_be_run_again(own_home: Path) -> None:
    """[X18] By the next start, and by hand; an updater says the same."""
    script = holding.way_back(own_home)
    script.write_text(f"rmdir {own_home}/in-its-way")
    with pytest.raises(preflight.StartError, match=f"Run `sh {script}`"):
        holding.go_back(own_home)
    with pytest.raises(UpdateError, match="could not be brought back"):
        way_back.go(own_home)
    assert script.exists()
    (own_home / "in-its-way").mkdir()
    assert holding.go_back(own_home)
