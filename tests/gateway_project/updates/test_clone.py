"""The code of a clone: how a new one comes, and how the old one comes back [X15] [X17] [X19]."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from core import VERSION
from gateway_project import home
from gateway_project.updates import clone
from gateway_project.updates.clone import Target, UpdateError
from tests.gateway_project.updates.origins import git
from tests.gateway_project.updates.small import NEW_PACKAGES, NEWER, Small


def found(to: str = "") -> Target:
    target = clone.find(to)
    assert target is not None
    return target


def run_back(target: Target) -> None:
    """Run the lines of the way back as its script does, twice: they can be repeated."""
    script = "\n".join(["set -e", *clone.lines_back(target)])
    for _ in range(2):
        subprocess.run(["/bin/sh", "-c", script], check=True, cwd="/")


def no_clone(small: Small) -> None:
    (small.code / ".git").rename(small.code / "no-git")


def changed(small: Small) -> None:
    (small.code / "manage.py").write_text("# mine")


def no_branch(small: Small) -> None:
    git(small.code, "checkout", "--quiet", "--detach")


def no_origin(small: Small) -> None:
    small.origin.rename(small.origin.with_name("gone"))


def no_upstream(small: Small) -> None:
    git(small.code, "branch", "--unset-upstream")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (no_clone, "no git clone: docs/deploy.md says how"),
        (changed, "Files of the clone were changed: M manage.py."),
        (no_branch, "No branch is checked out: name the version with --to."),
        (no_origin, "`git fetch --quiet --tags` failed: "),
        (no_upstream, "no upstream"),
    ],
)
def test_x19_a_clone_that_cannot_be_updated(
    small: Small, spoil: Callable[[Small], None], said: str
) -> None:
    """[X19]"""
    spoil(small)
    with pytest.raises(UpdateError) as caught:
        clone.find("")
    assert said in str(caught.value)


def test_x19_an_installed_wheel_is_not_updated(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X19] Although it may lie in the folder of somebody's clone."""
    monkeypatch.setattr(home, "IN_CLONE", False)
    assert (small.code / ".git").exists()
    with pytest.raises(UpdateError, match="no git clone"):
        clone.find("")


@pytest.mark.parametrize("to", ["0.9.9", "--upload-pack=sh", "HEAD:manage.py"])
def test_x19_a_version_that_is_none(small: Small, to: str) -> None:
    """[X19] An option of git, or a file, is no version either."""
    assert small.is_old()
    with pytest.raises(UpdateError, match="`git rev-parse --verify --end-of-options"):
        clone.find(to)


def test_x19_a_program_that_is_missing_is_named(small: Small) -> None:
    with pytest.raises(UpdateError, match="`git-of-nobody` could not be run: "):
        clone.run("git-of-nobody", "fetch", folder=small.code)


def test_x15_files_of_code_have_the_modes_of_the_shell(small: Small) -> None:
    """A gateway of another user may run them; other files are for this user alone."""
    mask = os.umask(0o077)
    try:
        clone.run("touch", "new.py", folder=small.code)
    finally:
        os.umask(mask)
    assert stat.S_IMODE((small.code / "new.py").stat().st_mode) == 0o644


def test_x19_a_program_that_fails_without_a_word(small: Small) -> None:
    (small.code / "fails.sh").write_text("exit 3")
    with pytest.raises(UpdateError, match=r"`sh fails.sh` failed: it gave no reason"):
        clone.run("sh", "fails.sh", folder=small.code)


def test_x19_a_command_that_fails_is_shown_with_its_own_options(small: Small) -> None:
    """Without those that every call of git has."""
    with pytest.raises(UpdateError, match=r"`sh -c 'exit 3'` failed"):
        clone.run("sh", "-c", "exit 3", folder=small.code)
    with pytest.raises(UpdateError, match=r"`git -c x.y=1 no-such-command` failed"):
        clone.git("-c", "x.y=1", "no-such-command")


def test_x15_nothing_is_newer(small: Small) -> None:
    """[X15] By the branch, by its name, and without a branch by the commit's."""
    assert clone.find("") is None
    assert clone.find("main") is None
    no_branch(small)
    assert clone.find("origin/main") is None


def test_x15_the_newest_version_of_the_branch_and_a_named_one(small: Small) -> None:
    """[X15] A tag is fetched, too."""
    first = small.commit("First", NEWER)
    git(small.origin, "tag", "v0.2.0")
    second = small.commit("Second", {"core/__init__.py": "NO = 1\n"})
    target = found()
    assert (target.commit, target.version, target.branch) == (second, "unknown", "main")
    assert clone.changes(target) == ["Second", "First"]
    named = found("v0.2.0")
    assert (named.commit, named.version) == (first, "0.2.0")
    assert clone.changes(named) == ["First"]
    assert small.is_old()


def test_x15_the_branch_goes_forward_to_the_new_code(small: Small) -> None:
    """[X15] With its packages; the next version is found from there."""
    small.commit("New", NEW_PACKAGES)
    clone.replace(found())
    assert (small.version(), small.packages()) == ("0.2.0", "2")
    assert git(small.code, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert clone.find("") is None


def test_x15_a_version_that_is_not_ahead_of_the_branch_leaves_the_branch(small: Small) -> None:
    """[X15] An older one, or one of another branch, is checked out without one."""
    small.branch("other", NEWER)
    small.commit("Own", {"manage.py": "# newer\n"})
    clone.replace(found())
    own = git(small.code, "rev-parse", "main")
    clone.replace(found("origin/other"))
    assert small.version() == "0.2.0"
    assert (small.code / "manage.py").read_text() == ""
    assert git(small.code, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert git(small.code, "rev-parse", "main") == own


def nothing_yet(_: Target, __: Small) -> None:
    """The update was cut off before it began."""


def git_was_killed(target: Target, small: Small) -> None:
    """In the middle of a checkout: its locks are there, one file is new, and one is gone."""
    (small.code / ".git" / "index.lock").touch()
    (small.code / ".git" / "HEAD.lock").touch()
    (small.code / "core" / "__init__.py").write_text(NEWER["core/__init__.py"])
    (small.code / "manage.py").unlink()
    assert target.version == "0.2.0"


def environment_is_half(target: Target, small: Small) -> None:
    with pytest.raises(UpdateError, match=r"`sh bootstrap.sh run` failed: no disk / no luck"):
        clone.replace(target)
    assert (small.version(), small.packages()) == ("0.2.0", "2")


def all_is_new(target: Target, small: Small) -> None:
    (small.origin / "no-environment").unlink()
    small.commit("Repaired", {})
    target = found()
    clone.replace(target)
    assert (small.version(), small.packages()) == ("0.2.0", "2")


@pytest.mark.parametrize("to", ["", "origin/other"], ids=["forward", "detached"])
@pytest.mark.parametrize("reach", [nothing_yet, git_was_killed, environment_is_half, all_is_new])
def test_x17_the_way_back_leads_from_everywhere(
    small: Small, reach: Callable[[Target, Small], None], to: str
) -> None:
    """[X17] [X18] The old code, its branch and its environment."""
    fails = {**NEW_PACKAGES, "no-environment": "", "said-by-bootstrap": "no disk\n\n no luck\n"}
    small.branch("other", fails)
    small.commit("New", fails)
    target = found(to)
    clone.keep_environment(target)
    reach(target, small)
    run_back(target)
    assert small.is_old()


def test_x17_the_way_back_of_a_clone_without_a_branch(small: Small) -> None:
    """[X17] Its commit again, and still no branch."""
    no_branch(small)
    small.commit("New", NEW_PACKAGES)
    target = found("origin/main")
    assert target.branch == ""
    clone.keep_environment(target)
    clone.replace(target)
    assert small.version() == "0.2.0"
    run_back(target)
    assert (small.version(), small.packages()) == (VERSION, "1")
    assert git(small.code, "rev-parse", "HEAD") == target.now
    assert git(small.code, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"


def test_x17_the_environment_is_kept_without_a_copy_of_its_files(small: Small) -> None:
    """[X17] Links of its own, also to the Python outside; the rest of an older update goes."""
    (small.code / ".venv" / "bin" / "python3").symlink_to("/usr/bin/env")
    kept = small.code / clone.PREVIOUS
    kept.mkdir()
    (kept / "older").touch()
    small.commit("New", NEW_PACKAGES)
    clone.keep_environment(found())
    python = kept / "bin" / "python"
    assert python.samefile(clone.python())
    assert (kept / "bin" / "python3").readlink() == Path("/usr/bin/env")
    assert not (kept / "older").exists()


def test_x17_an_environment_that_stays_is_not_kept(small: Small) -> None:
    """[X17] And one of an older update is not taken for it."""
    (small.code / clone.PREVIOUS).mkdir()
    small.commit("New", NEWER)
    target = found()
    assert clone.same_environment(target)
    clone.keep_environment(target)
    assert not (small.code / clone.PREVIOUS).exists()


def test_x16_the_new_code_is_checked_out_beside_and_goes(small: Small, tmp_path: Path) -> None:
    """[X16] With the Python that it shares, also where an update was killed in the middle."""
    small.commit("New", NEWER)
    target, folder = found(), tmp_path / "beside"
    git(small.code, "worktree", "add", "--quiet", "--detach", str(folder))
    with clone.beside(target, folder) as python:
        assert python == small.code / ".venv" / "bin" / "python"
        assert NEWER["core/__init__.py"] == (folder / "core" / "__init__.py").read_text()
    assert not folder.exists()
    assert len(git(small.code, "worktree", "list").splitlines()) == 1
    assert small.is_old()


def test_x16_new_packages_are_installed_beside(small: Small, tmp_path: Path) -> None:
    """[X16] The environment of the installation stays; nothing is left after an error."""
    small.commit("New", NEW_PACKAGES)
    folder = tmp_path / "beside"
    with pytest.raises(OSError, match="full"), clone.beside(found(), folder) as python:
        assert python.is_relative_to(folder)
        assert (folder / ".venv" / "lock").read_text() == "2"
        assert small.packages() == "1"
        raise OSError("full")
    small.commit("Worse", {"uv.lock": "3", "no-environment": ""})
    with (
        pytest.raises(UpdateError, match=r"`sh bootstrap.sh run` failed"),
        clone.beside(found(), folder),
    ):
        pytest.fail("it has no environment")
    assert not folder.exists()
    assert len(git(small.code, "worktree", "list").splitlines()) == 1
    assert small.is_old()
