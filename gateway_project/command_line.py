"""The command line: ``latchkey`` of an installed wheel, and ``manage.py`` of a clone."""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from core import VERSION
from gateway_project import home
from gateway_project.processes import console

OLDEST_PYTHON = (3, 11)
INTERRUPTED, UNREAD = 130, 141  # the exit codes that shells use for SIGINT and SIGPIPE
PATHS = ("GATEWAY_HOME", "BACKUP_FOLDER", "LLM_SCRIPT")


def command(*arguments: str) -> list[str]:
    """Return the command line of a management command, in a clone and in an installed wheel."""
    code = "from gateway_project.command_line import main; main()"
    return [sys.executable, "-c", code, *arguments]


def main() -> None:
    """Run a management command; Ctrl-C gives one line, a closed pipe (``head``) none."""
    console.settle()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # of manage.py, until here
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        try:
            run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more
        sys.exit(UNREAD)
    except (KeyboardInterrupt, Exception) as error:
        if not was_interrupted(error):
            raise
        console.write("Stopped.")
        sys.exit(INTERRUPTED)


def end_now(number: int, frame: FrameType | None) -> None:
    """End this process at Ctrl-C, as SIGTERM does: the next start does the rest.

    ``KeyboardInterrupt`` would be lost where a finalizer runs, of which migrations have many.
    """
    del number, frame
    try:
        console.write("Stopped.")
    finally:
        os._exit(INTERRUPTED)  # also where a line is being written, which refuses another one


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error, which another error may hide."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def run() -> None:
    """Run one management command; the first makes the installation's folder and secrets.

    A problem of the machine or of the settings is said in one line.
    """
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}.")
    if sys.argv[1:] in (["version"], ["--version"]):
        console.write(f"Latchkey {VERSION}")
        return
    # Other users read no conversation, nor write a script of a page, also in a home that was made
    # for all to look at. The processes of `up` inherit it.
    home.shell_umask = os.umask(0o077)
    hears_ctrl_c = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if sys.argv[1:2] in (["up"], ["migrate"]) and hears_ctrl_c:
        signal.signal(signal.SIGINT, end_now)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    os.environ.setdefault(console.STARTED, repr(time.time()))
    settle_paths()
    try:
        home.ensure()
    except OSError as error:
        sys.exit(home.explain(error))
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415 - `version` needs none
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - the same
    from django.db import Error  # noqa: PLC0415 - the same

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"A setting is wrong: {error}")
    except Error as error:
        if "--traceback" in sys.argv:
            raise
        sys.exit(explain(error))


def explain(error: Exception) -> str:
    """Return what is wrong with the database, with a fix. A command without the settings of the
    gateway, as in another shell, has a database of its own.
    """
    from django.conf import settings  # noqa: PLC0415 - `version` needs none

    from gateway_project import databases  # noqa: PLC0415 - the same

    given = settings.DATABASES["default"]
    return (
        f"The database does not answer as it should: {console.reason(error)}. It is "
        f"{databases.place(given)}: if your gateway has another one, run the command with its "
        f"GATEWAY_HOME and DATABASE_URL. {databases.advice(given)}; a new one needs "
        f"`{home.COMMAND} migrate` first. With --traceback the whole error is shown."
    )


def settle_paths() -> None:
    """Make paths in the environment absolute: child processes work in another folder."""
    for name, given in list(os.environ.items()):
        value = given.strip()
        if value and (name in PATHS or (name.endswith("_FILE") and is_file(value))):
            os.environ[name] = str(Path(value).absolute())


def is_file(value: str) -> bool:
    """Return whether a variable, perhaps of another program, names a file that is seen here."""
    try:
        return Path(value).is_file()
    except OSError:
        return False
