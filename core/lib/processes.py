"""Processes that run for their output, with limits of time and size."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK_BYTES = 1024 * 1024


class TooMuchOutputError(Exception):
    """The process wrote more than its limit."""


async def output_of(
    *command: str, seconds: float, most_bytes: int, given: bytes = b"",
    cwd: Path | None = None, env: Mapping[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
) -> tuple[bytes, int]:  # fmt: skip
    """Return what a command with ``given`` as its input wrote to stdout, and its exit code.

    ``prepare`` runs in the new process before the command, without the other threads of this one:
    nothing in it may look for a library, a module or a setting. Raises TimeoutError,
    TooMuchOutputError and, where the command cannot be run, OSError. Whatever happens, the process
    has ended.
    """
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=env, preexec_fn=prepare, limit=BLOCK_BYTES,
        stdin=asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None  # noqa: S101 - for the type checker
    try:
        async with asyncio.timeout(seconds):
            if process.stdin is not None:
                # It may have ended before we write, or taken no input; its output counts.
                with suppress(OSError, RuntimeError):
                    process.stdin.write(given)
                    process.stdin.close()
            output = await all_of(process.stdout, most_bytes)
            return output, await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def output_of_module(
    name: str, *arguments: str, seconds: float, most_bytes: int
) -> tuple[bytes, int]:
    """Return the output of ``python -m name`` as :func:`output_of` does; it sees no secrets."""
    env = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1"}
    command = (sys.executable, "-m", name, *arguments)
    return await output_of(*command, seconds=seconds, most_bytes=most_bytes, cwd=ROOT, env=env)


async def all_of(stream: asyncio.StreamReader, most_bytes: int) -> bytes:
    """Return everything in ``stream``. Raises TooMuchOutputError."""
    blocks: list[bytes] = []
    size = 0
    while block := await stream.read(BLOCK_BYTES):
        size += len(block)
        if size > most_bytes:
            raise TooMuchOutputError
        blocks.append(block)
    return b"".join(blocks)
