"""[V22] A tool of another package in a turn of the gateway."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.models import Message as Line
from tests.core.jobs_worker.conftest import Say, Worker
from tests.core.jobs_worker.test_asked import lines
from tests.core.jobs_worker.test_plugin_messages import log
from tests.core.tools.installed import installed

POINTS = {"days": "latchkey_example_tool:TOOL", "gone": "no_such_package:TOOL"}
REQUEST = "Kannst du mir bitte sagen, wie viele Tage es bis zum Jahr 2000 sind?"


@pytest.mark.django_db(transaction=True)
def test_v22_an_installed_tool_is_called_and_speaks_the_language_of_the_request(
    tmp_path: Path, worker: Worker, script: Any, say: Say
) -> None:
    """[V21] A wrong call beside the right one is answered to the model in a line."""
    wrong, right = {"day": "2000-01-01", "count": "weeks"}, {"day": "2000-01-01", "count": None}
    calls = [{"tool": "days_until", "arguments": each} for each in (wrong, right)]
    script(
        [
            {"match": "", "after_tool": True, "steps": [{"text": "Vorbei!"}]},
            {"match": "", "steps": calls},
        ]
    )
    with installed(tmp_path, points=POINTS):
        run = say(REQUEST)
    assert run.result["text"] == "📅 Bis zum 2000-01-01 sind es 0 Tage.\n\nVorbei!"
    assert lines(run) == [("Die Tage werden gezählt…", "days_until")] * 2
    ends = [each["props"]["data"] for each in log(run) if each["props"].get("event") == "tool_end"]
    assert [each["status"] for each in ends] == ["error", "completed"]
    kept = json.dumps(Line.objects.get(run=run, role="assistant").calls, ensure_ascii=False)
    assert "Error: count must be one of days, workdays; it was" in kept
