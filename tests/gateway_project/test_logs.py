"""Log lines: for people in a terminal, as JSON elsewhere."""

import json
import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from allowlist import decision_links, sign_in
from core.lib.log_ids import Ids, under
from core.models import User
from gateway_project import logs
from gateway_project.home import BASE_DIR
from gateway_project.logs import TerminalFormatter

WARN = """
import django, logging
django.setup()
logging.getLogger("core.agent").warning("the model %s", "is slow")
"""


def settings(home: Path) -> dict[str, str]:
    """Return the environment of a process with the gateway's settings."""
    ours = {"DJANGO_SETTINGS_MODULE": "gateway_project.settings", "GATEWAY_HOME": str(home)}
    return {**os.environ, **ours}


@pytest.mark.unmeasured
def test_a_terminal_shows_lines_for_people(tmp_path: Path) -> None:
    """As `make run` does, whose processes share its terminal."""
    ours, theirs = pty.openpty()
    warn = [sys.executable, "-c", WARN]
    subprocess.run(warn, env=settings(tmp_path), cwd=BASE_DIR, stderr=theirs, check=True)
    os.close(theirs)
    line = os.read(ours, 10_000).decode().strip()
    os.close(ours)
    assert re.fullmatch(r"\d\d:\d\d:\d\d WARNING core\.agent: the model is slow", line)


@pytest.mark.unmeasured
def test_a_file_or_a_collector_gets_json(tmp_path: Path) -> None:
    """One object a line."""
    warn = [sys.executable, "-c", WARN]
    done = subprocess.run(
        warn, env=settings(tmp_path), cwd=BASE_DIR, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stderr)
    assert (found["level"], found["message"]) == ("warning", "the model is slow")


@pytest.mark.parametrize("form", [logs.JsonFormatter(), logs.TerminalFormatter()])
def test_a_refused_link_is_in_no_line(
    db: None, caplog: pytest.LogCaptureFixture, form: logging.Formatter
) -> None:
    """Django logs the address of what it refuses. Without a cookie, as in a browser inside another
    app, a sign-in link is refused, and still signs in.
    """
    person = User.objects.create(username="ann", is_owner=True)
    signed_in = sign_in.create(user=person, now=timezone.now())
    decides = decision_links.token(request="x" * 22, owner=person.pk)
    browser = Client(enforce_csrf_checks=True)
    browser.post(f"/sign-in/{signed_in}")
    browser.put(f"/sign-in/{signed_in}")
    browser.post(f"/decide/{decides}")
    lines = [form.format(each) for each in caplog.records]
    assert [line for line in lines if "/sign-in/" in line and "/decide/" not in line]
    assert not [line for line in lines if signed_in in line or decides in line]
    assert sign_in.holder(token=signed_in, now=timezone.now()) == person


def test_rlog1_no_sender_forges_a_line_of_a_terminal_or_commands_it() -> None:
    """[RLOG1] The traceback, too, repeats what a sender wrote."""
    words = "a\n12:00:00 allowlist: approved\r\x1b[2J\u2028\u202e"
    try:
        raise ValueError(words)
    except ValueError:
        caught = sys.exc_info()
    record = logging.LogRecord("x", logging.INFO, "", 0, "denied %s", (words,), caught)
    written = under(Ids(run="7JKPe6"), lambda: TerminalFormatter().format(record))
    first, *traceback = written.split("\n")
    shown = "denied a ⏎ 12:00:00 allowlist: approved⟨U+000D⟩⟨U+001B⟩[2J⟨U+2028⟩⟨U+202E⟩"
    assert first.endswith(f"x: {shown} [run 7JKPe6]")
    assert traceback
    assert all(each.startswith("    ") for each in traceback)
    assert "\x1b" not in "".join(traceback)
    assert "\r" not in "".join(traceback)
