"""The mutation tests themselves: the swap in a fork; the list of survivors matches our code."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.utils.functional import SimpleLazyObject

from tests.mutation import identity, indoors, swap, targets

ROOT = Path(__file__).resolve().parent.parent.parent
LIVING = """
import functools
LIMIT = 3
def loud(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner
@loud
def within(number, *, less=0):
    return number - less < LIMIT
class Door:
    def opens(self, number):
        return within(number)
class Gate(Door):
    def opens(self, number):
        return super().opens(number)
"""


@pytest.fixture
def living(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the file of an imported module, ``living_code``."""
    path = tmp_path / "living_code.py"
    path.write_text(LIVING)
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("living_code")
    yield path
    del sys.modules["living_code"]


def function(name: str) -> Callable[..., bool]:
    """Return a function of the living module."""
    found: Callable[..., bool] = getattr(sys.modules["living_code"], name)
    return found


def look_into_database() -> object:
    """Fail: a lazy object of another test would query the database here."""
    raise AssertionError("it was asked what it is")


def test_a_mutant_reaches_modules_that_imported_the_function(living: Path) -> None:
    """Behind its decorator, with its defaults, as a method too."""
    within, door = function("within"), sys.modules["living_code"].Door()
    lazy = SimpleLazyObject(look_into_database)
    found = swap.living({str(living)})
    assert lazy is not None
    assert (within(2), within(3)) == (True, False)
    swap.put(
        path=str(living),
        source="def within(number, *, less=1):\n    return number - less < LIMIT\n",
        into=found[str(living), "within"],
    )
    assert (within(3), within(4), within(2, less=-1)) == (True, False, False)
    swap.put(
        path=str(living),
        source="def opens(self, number):\n    return not within(number)\n",
        into=found[str(living), "Door.opens"],
    )
    assert door.opens(4)


def test_a_mutant_of_a_method_still_knows_its_class(living: Path) -> None:
    source = "def opens(self, number):\n    return not super().opens(number)\n"
    found = swap.living({str(living)})
    swap.put(path=str(living), source=source, into=found[str(living), "Gate.opens"])
    gate = sys.modules["living_code"].Gate()
    assert (gate.opens(2), gate.opens(3)) == (False, True)


def test_a_mutant_that_cannot_be_imported_is_told_from_a_failure_of_the_run(living: Path) -> None:
    broken = "def within(number, *, less=None + 1):\n    return True\n"
    into = swap.living({str(living)})[str(living), "within"]
    with pytest.raises(swap.NoModuleError):
        swap.put(path=str(living), source=broken, into=into)
    with pytest.raises(swap.NoModuleError):
        swap.put_constant(path=str(living), name="LIMIT", source="LIMIT = None + 1")


def test_a_mutant_of_a_constant_is_read_by_the_functions(living: Path) -> None:
    """In its own module, and where it was imported to."""
    within = function("within")
    swap.put_constant(path=str(living), name="LIMIT", source=LIVING.replace("3", "5"))
    assert sys.modules["living_code"].LIMIT == 5
    assert within(4, less=0)


@pytest.mark.parametrize(
    ("host", "ours"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("8.8.8.8", False), ("x.org", False)],
)
def test_mutants_stay_on_this_machine(host: str, ours: bool) -> None:
    """RDOC1: a mutant of the guard must not reach another machine."""
    assert indoors.is_loopback(host) == ours


def test_every_justified_survivor_is_a_change_of_code_that_is_there() -> None:
    """And has a reason; no two are the same."""
    known = identity.justified()
    for each, why in known.items():
        text = " ".join((ROOT / each.path).read_text().split())
        assert " ".join(each.before.split()) in text, str(each)
        assert each.path in {target.path for target in targets.TARGETS}
        assert len(why) > 10
    assert identity.SURVIVORS.read_text().count("[[survivor]]") == len(known)


def test_a_survivor_is_written_as_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is in its lines."""
    odd = identity.Identity("core/x.py", "f", 'a = "\\n" # “é”', "a = 'b'", 2)
    monkeypatch.setattr(identity, "SURVIVORS", tmp_path / "s.toml")
    identity.SURVIVORS.write_text(odd.stanza('it is "equal"'))
    assert identity.justified() == {odd: 'it is "equal"'}


def test_every_target_and_its_tests_exist() -> None:
    """A file that was renamed is noticed here, not in an hour of soaking."""
    for target in targets.TARGETS:
        assert (ROOT / target.path).is_file()
        assert all((ROOT / each).exists() for each in target.tests)
