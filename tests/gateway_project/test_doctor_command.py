"""The output of `manage.py doctor`, and its exit code."""

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from channels_app.ops.doctor.findings import error, warning
from core.files import storage
from gateway_project.management.commands import doctor


def asked(*arguments: str) -> tuple[int, str]:
    """Return the exit code, and what is printed."""
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", *arguments, stdout=out)
    assert isinstance(ended.value.code, int)
    return ended.value.code, out.getvalue()


def test_an_installation_that_does_not_run_is_an_error(own_home: Path, db: None) -> None:
    """For people and for scripts, the same."""
    del own_home, db
    code, printed = asked("--json")
    found = json.loads(printed)
    assert code == 2
    assert "not-ready" in {each["id"] for each in found if each["level"] == "error"}
    code, text = asked()
    assert code == 2
    for each in found:
        assert f"{each['level']}: {each['what']}\n  fix: {each['fix']}" in text


def test_files_that_are_gone_for_good_are_given_up(own_home: Path, db: None) -> None:
    """The folder of this machine is the database's from then on."""
    del db
    assert storage.misplaced() == ""
    shutil.rmtree(own_home / "files")
    assert "--adopt-files" in asked()[1]
    assert "--adopt-files" not in asked("--adopt-files")[1]
    assert "--adopt-files" not in asked()[1]


def test_the_exit_code_is_that_of_the_worst() -> None:
    some = warning("one", "It is weak.", "Mend it.")
    assert doctor.code_of([]) == 0
    assert doctor.code_of([some]) == 1
    assert doctor.code_of([error("two", "It is open.", "Close it."), some]) == 2


def test_a_name_does_not_reach_the_terminal_as_a_command() -> None:
    """Of an account, which somebody else may have chosen."""
    found = error("one", "The account \x1b[2J\u202eis broken.", "Look\r at it.")
    assert doctor.lines_of(found) == "error: The account �[2J�is broken.\n  fix: Look� at it."
