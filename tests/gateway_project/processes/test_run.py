"""``make test`` runs steps in parallel, repeats a failed test alone, and names it."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import run
from tests.conftest import is_left_out, runs_on

pytestmark = pytest.mark.unmeasured  # processes that read all modules of the tests

ONCE = """
from pathlib import Path
SEEN = Path(__file__).with_name("seen")
def test_a(): assert SEEN.exists() or SEEN.touch()
def test_b(): pass
"""


@pytest.fixture
def unsure(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the tests that a run names as unsure."""
    names: list[str] = []
    monkeypatch.setattr(run, "unsure", names)
    return names


def step(folder: Path, text: str) -> run.Step:
    """Return a step that runs pytest on one file of its own, as ``make test`` does."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    notes = folder / "notes"
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={notes}"]
    command += ["--rootdir", str(folder), "-c", str(folder / "pytest.ini"), str(folder)]
    noted = notes / "v" / "cache" / "lastfailed"
    bare = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return run.Step("tests", command, bare, noted, [*command, "--last-failed"])


def test_a_test_that_passes_alone_is_named_and_passes(tmp_path: Path, unsure: list[str]) -> None:
    assert run.run([step(tmp_path, ONCE)]) == []
    assert unsure == ["test_it.py::test_a"]


def test_a_test_that_fails_again_fails_the_step(
    tmp_path: Path, unsure: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run.run([step(tmp_path, "def test_a(): assert 0\ndef test_b(): pass\n")]) == ["tests"]
    assert "second look: FAILED" in capfd.readouterr().out
    assert unsure == []


def test_many_failures_get_no_second_look(
    tmp_path: Path, unsure: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    many = "".join(f"def test_{number}(): assert 0\n" for number in range(run.SECOND_LOOK + 1))
    assert run.run([step(tmp_path, many)]) == ["tests"]
    assert "second look" not in capfd.readouterr().out
    assert unsure == []


def test_a_file_that_cannot_be_read_gets_none(tmp_path: Path, unsure: list[str]) -> None:
    assert run.run([step(tmp_path, "import nothing_of_this_name\n")]) == ["tests"]
    assert unsure == []


def places(nodeid: str, *marks: str) -> list[str]:
    """Return the databases on which a test with these marks runs."""
    item: Any = SimpleNamespace(
        nodeid=nodeid,
        fixturenames=["db"],
        iter_markers=lambda: [SimpleNamespace(name=each) for each in marks],
        get_closest_marker=lambda _: None,
    )
    return [which for which in ("first", "second") if runs_on(which, item)]


def exists(begin: str) -> bool:
    """Return whether there is the folder or the file of tests that begin so."""
    return (run.ROOT / begin.split("::", maxsplit=1)[0]).exists()


def test_files_that_run_on_one_database_exist_and_run_on_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No test of theirs runs nowhere; the first database leaves out only files of the second."""
    monkeypatch.delenv("TEST_TURN", raising=False)
    assert all((run.ROOT / each).exists() for each in (*run.ONCE, *run.ONCE_UNMEASURED))
    for each in run.ONCE:
        assert places(f"{each}/test_x.py::test_x") == ["first"]
        assert places(f"{each}/test_x.py::test_x", "unmeasured", "slow") == ["second"]
    for each in run.ONCE_UNMEASURED:
        assert places(f"{each}::test_x", "slow") == ["second"]
    first, second = (
        [one for one in each.command if "--ignore=" in one]
        for each in run.test_steps(marker="m", coverage=False, processes=(1, 1))
    )
    assert first == [f"--ignore={each}" for each in run.ONCE_UNMEASURED]
    assert second == []


def test_each_test_of_either_database_runs_on_one_and_in_the_soak_on_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its name, so a test more or less changes nothing for the others."""
    monkeypatch.delenv("TEST_TURN", raising=False)
    assert all(exists(each) for each in run.EITHER)
    names = [f"{each}::test_x[{case}]" for each in run.EITHER for case in range(20)]
    names = [each for each in names if not each.startswith((*run.ONCE, *run.ONCE_UNMEASURED))]
    found = [places(each, "slow") for each in names]
    assert {tuple(each) for each in found} == {("first",), ("second",)}
    assert len(names) / 3 < found.count(["first"]) < len(names) / 1.5
    marked = [places(f"tests/x.py::test_{case}", "either") for case in range(20)]
    assert {tuple(each) for each in marked} == {("first",), ("second",)}
    monkeypatch.setenv("TEST_EITHER", run.SOAK["TEST_EITHER"])
    assert {tuple(places(each, "slow")) for each in names} == {("first", "second")}


def test_slow_files_and_the_dearest_slow_tests_run_on_one_day_of_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a file either all or none, but for the dearest; fast tests run each day."""
    assert all((run.ROOT / each).exists() for each in (*run.IN_TURN, *run.EVERY_DAY))
    days = {f"{each}/test_x.py::test_{n}": 3 for each in run.IN_TURN for n in range(40)}
    days |= {f"tests/x/test_{n}.py::test_{n}": 3 for n in range(40)}
    days |= {f"{each}::test_x": 3 * run.DAYS for each in run.EVERY_DAY}
    seen, turns = dict.fromkeys(days, 0), range(739_000, 739_000 + 3 * run.DAYS)
    for turn in turns:
        monkeypatch.setenv("TEST_TURN", str(turn))
        for each in days:
            seen[each] += bool(places(each, "slow"))
            assert places(each)
        assert len({bool(places(f"tests/x/test_a.py::test_{n}", "slow")) for n in range(20)}) == 1
    assert seen == days
    monkeypatch.setenv("TEST_TURN", run.SOAK["TEST_TURN"])
    assert all(places(each, "slow") for each in days)


@pytest.mark.parametrize("file", run.ALTERNATING)
def test_a_file_that_alternates_runs_whole_on_one_database(
    monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """Within four times DAYS on each, also where its tests are slow."""
    assert exists(file)
    seen: list[str] = []
    for turn in range(739_000, 739_000 + 4 * run.DAYS):
        monkeypatch.setenv("TEST_TURN", str(turn))
        [found] = {tuple(places(f"{file}::test_{n}", "slow")) for n in range(9)}
        seen += found
    times = 2 * run.DAYS if file.startswith(run.EVERY_DAY) else 2
    assert sorted(seen) == ["first"] * times + ["second"] * times
    monkeypatch.setenv("TEST_TURN", run.SOAK["TEST_TURN"])
    assert places(f"{file}::test_x", "slow") == ["first", "second"]


def test_quick_tests_that_are_dear_by_their_number_run_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each on one day of as many as there are parts, and all in the soak."""
    for begin, parts in run.PARTS.items():
        assert exists(begin)
        names = [f"{begin}::test_{n}" for n in range(40)]
        seen = dict.fromkeys(names, 0)
        for turn in range(739_000, 739_000 + parts):
            monkeypatch.setenv("TEST_TURN", str(turn))
            today = [each for each in names if places(each)]
            assert 40 / parts / 2 < len(today) < 40 / parts * 1.5
            seen |= {each: seen[each] + 1 for each in today}
        assert set(seen.values()) == {1}
        monkeypatch.setenv("TEST_TURN", run.SOAK["TEST_TURN"])
        assert all(places(each) for each in names)


def test_the_parts_of_a_walk_are_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_TURN", raising=False)
    assert run.of_this_turn("abcdefg", parts=3) == list("abcdefg")
    found: list[str] = []
    for turn in range(739_000, 739_003):
        monkeypatch.setenv("TEST_TURN", str(turn))
        found += run.of_this_turn("abcdefg", parts=3)
    assert sorted(found) == list("abcdefg")
    monkeypatch.setenv("TEST_TURN", run.SOAK["TEST_TURN"])
    assert run.of_this_turn("abcdefg", parts=3) == list("abcdefg")


def test_no_step_leaves_out_a_file_that_has_a_test_for_it() -> None:
    """Files are left out by the words in them; their tests have marks."""
    folders = ["tests/journeys", "tests/chaos", "tests/upgrades"]
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "slow", *folders],
        cwd=run.ROOT,
        env={**os.environ, "TEST_WHICH": "", "TEST_TURN": ""},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = {line.split("::")[0] for line in said.splitlines() if "::" in line}
    assert len(found) > 9
    assert {each for each in found if is_left_out(run.ROOT / each, "slow")} == set()


def test_files_of_the_last_step_are_those_with_its_mark() -> None:
    """One that is not named would never run."""
    marked = {
        str(each.relative_to(run.ROOT))
        for each in (run.ROOT / "tests").rglob("test_*.py")
        if "pytest.mark.alone" in each.read_text() and each != Path(__file__)
    }
    assert marked == set(run.ALONE)


@pytest.mark.parametrize(("which", "runs"), [("second", 0), ("alone", 3)])
def test_the_last_step_has_its_tests_to_itself(which: str, runs: int) -> None:
    """The step that has the other judges runs none of them; it runs no other test, and no
    processes beside its own.
    """
    step = run.alone_step()
    assert "-n" not in step.command
    assert step.env["TEST_WHICH"] == "alone"
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *run.ALONE]
    command.append("tests/judges/test_accessibility.py")
    said = subprocess.run(
        command,
        cwd=run.ROOT,
        env={**os.environ, "TEST_WHICH": which},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert said.count("test_lighthouse.py::") == runs
    assert "test_accessibility.py::" in said or which == "alone"
    assert (said.count("::") == runs) == (which == "alone")


def test_sequences_run_in_parallel_and_each_goes_on_after_a_failure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each sequence waits for a file of the other."""

    def sh(name: str, script: str) -> run.Step:
        return run.Step(name, ["/bin/sh", "-c", script], {"HERE": str(tmp_path)})

    met = 'touch "$HERE/{}"; until [ -e "$HERE/{}" ]; do sleep 0.1; done; echo {} done'
    failed = run.run(
        [sh("one", met.format("a", "b", "one"))],
        [sh("bad", "echo reason >&2; exit 3"), sh("two", met.format("b", "a", "two"))],
    )
    assert failed == ["bad"]
    said = capfd.readouterr().out
    assert "one done" in said
    assert "=== bad\nreason\n--- bad: FAILED (exit code 3)" in said
    assert "=== two\ntwo done\n--- two: passed" in said
