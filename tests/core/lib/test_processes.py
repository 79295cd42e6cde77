"""Processes end within their limits, and their whole output is read."""

import asyncio
import ctypes
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from core.lib import child
from core.lib.processes import TooMuchOutputError, output_of, output_of_module


def python(code: str) -> tuple[str, ...]:
    """Return the command that runs ``code``."""
    return (sys.executable, "-c", code)


async def test_a_process_gets_its_input_and_gives_its_output_and_exit_code() -> None:
    code = "import sys; print(sys.stdin.read().upper(), end=''); sys.exit(3)"
    found = await output_of(*python(code), seconds=30, most_bytes=1000, given=b"bees")
    assert found == (b"BEES", 3)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("given", [b"", b"x" * 1_000_000])
def test_the_output_counts_of_a_process_that_ended_before_it_was_given_its_input(
    run: Callable[..., tuple[bytes, int]], given: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine."""
    original = asyncio.create_subprocess_exec

    async def late(*command: Any, **options: Any) -> Process:
        process = await original(*command, **options)
        await process.wait()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", late)
    found = run(output_of(*python("print(1)"), seconds=30, most_bytes=1000, given=given))
    assert found == (b"1\n", 0)


async def test_output_that_comes_bit_by_bit_is_whole() -> None:
    code = "import time; print(1, flush=True); time.sleep(0.2); print('x' * 300_000)"
    output, _ = await output_of(*python(code), seconds=30, most_bytes=1_000_000)
    assert len(output) == 300_003


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import time; time.sleep(600)", TimeoutError),
        ("while True: print('x' * 1000)", TooMuchOutputError),
    ],
)
async def test_a_process_beyond_a_limit_has_ended(
    code: str, error: type[Exception], tmp_path: Path
) -> None:
    own = f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    with pytest.raises(error):
        await output_of(*python(f"{own}\n{code}"), seconds=3, most_bytes=100_000)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_module_of_ours_sees_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_TEST", "never shown")
    output, code = await output_of_module(
        "timeit", "-n1", "-r1", "-simport os", "print(dict(os.environ))",
        seconds=30, most_bytes=10_000,
    )  # fmt: skip
    assert code == 0
    assert b"PATH" in output
    assert b"SECRET" not in output


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is asked of the kernel")
async def test_nothing_is_loaded_between_fork_and_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread may have held the lock of the loader when the process was forked: the child
    would wait for ever, and its parent for it."""

    def wait_for_ever(*_: object, **__: object) -> None:
        raise AssertionError("the loader is asked")

    monkeypatch.setattr(ctypes, "CDLL", wait_for_ever)
    own = partial(child.die_with_parent, parent=os.getpid())
    found = await output_of(*python("print(1)"), seconds=30, most_bytes=1000, prepare=own)
    assert found == (b"1\n", 0)


async def test_a_limit_that_is_lower_already_stays() -> None:
    """Only root may raise it: with a low JOB_MEMORY_MEGABYTES no document could be read in a long
    task."""
    code = (
        "import resource as r; from core.lib import resource_limits; "
        "r.setrlimit(r.RLIMIT_AS, (2**30, 2**30)); resource_limits.limit(memory=2**31, seconds=9); "
        "print(r.getrlimit(r.RLIMIT_AS)[1] == 2**30, r.getrlimit(r.RLIMIT_CPU)[1])"
    )
    said, code_of_exit = await output_of(*python(code), seconds=30, most_bytes=100)
    assert (said, code_of_exit) == (b"True 9\n", 0)
