"""Log lines of a turn have its ids, in every process that works for it [X74] [X75]."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import people
from tests.gateways import Gateway
from tests.servers import wait_until

Line = dict[str, Any]
SECRET = "the words of a person"
SUMMARY = {
    "plugin_id": "summarize",
    "capability_id": "summarize_text",
    "parameters": {"text": "A long text. " * 50},
}
pytestmark = pytest.mark.slow
SCRIPT = [
    {"match": "", "after_tool": True, "steps": [{"text": f"It is noon, {SECRET}."}]},
    {"match": "^sum", "steps": [{"tool": "route_to_plugin", "arguments": SUMMARY}]},
    {"match": "^time", "steps": [{"tool": "current_time", "arguments": {}}]},
]
SAY = """
from django.utils import timezone
from channels_app.memory.channel import say
from core.models import ChannelAccount, ChannelIdentity, User
account = ChannelAccount.objects.create(channel="memory", name="main")
ChannelIdentity.objects.create(user=User.objects.get(username="member"), kind="im", value="42")
say(account=account, sender="42", chat="42", text="time", message_id="1", now=timezone.now())
"""


@pytest.fixture(scope="module")
def gateway(
    module_gateways: Callable[..., Gateway], tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    path: Path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return module_gateways(LLM_SCRIPT=str(path))


@pytest.fixture(scope="module")
def tokens(gateway: Gateway) -> dict[str, str]:
    return people.make(gateway)


def ask(gateway: Gateway, token: str, text: str) -> Line:
    """Return the whole answer of ``/inbound``."""
    answer = httpx.post(
        f"{gateway.base_url}/inbound",
        json={"text": text},
        headers={"Authorization": f"Bearer {token}"},
        timeout=120,
    )
    assert answer.status_code == 200, answer.text
    found: Line = answer.json()
    return found


def lines(gateway: Gateway, process: str) -> list[Line]:
    """Return the lines of a process that are JSON."""
    return [
        json.loads(line) for line in gateway.log(process).splitlines() if line.startswith('{"at"')
    ]


def said(gateway: Gateway, process: str, **ids: str) -> list[str]:
    """Return the messages of the lines with these ids."""
    return [
        str(each["message"])
        for each in lines(gateway, process)
        if all(each.get(name) == value for name, value in ids.items())
    ]


def has_ended(gateway: Gateway, run: str) -> bool:
    """Return whether the worker has logged the end of a run."""
    return "the run has succeeded" in said(gateway, "runs", run=run)


def test_x74_the_lines_of_a_turn_have_its_run_and_session_in_web_and_worker(
    gateway: Gateway, tokens: dict[str, str]
) -> None:
    answer = ask(gateway, tokens["owner"], f"time {SECRET}")
    run = answer["run_id"]
    wait_until(lambda: "the run has succeeded" in said(gateway, "runs", run=run))
    accepted = [each for each in lines(gateway, "web") if each.get("run") == run]
    assert [each["message"] for each in accepted] == ["a message was accepted"]
    session = accepted[0]["session"]
    assert session == answer["session_id"]
    worked = said(gateway, "runs", run=run, session=session)
    assert worked[0] == "a turn begins, attempt 1"
    assert any(each.startswith("tool current_time took") for each in worked)
    assert worked[-1] == "the run has succeeded"


def test_x74_turns_at_the_same_time_keep_their_lines_apart(
    gateway: Gateway, tokens: dict[str, str]
) -> None:
    texts = [f"time {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(
                lambda each: ask(gateway, tokens[("owner", "member")[int(each[-1]) % 2]], each),
                texts,
            )
        )
    found = {each["run_id"] for each in answers}
    assert len(found) == len(texts)
    for run in found:
        wait_until(partial(has_ended, gateway, run))
        assert said(gateway, "web", run=run) == ["a message was accepted"]
        worked = said(gateway, "runs", run=run)
        assert [each[:12] for each in worked] == ["a turn begin", "tool current", "the run has "]
    for process in ("web", "runs"):
        sessions: dict[str, set[str]] = {}
        for each in lines(gateway, process):
            if "run" in each:
                sessions.setdefault(each["run"], set()).add(each["session"])
        assert all(len(each) == 1 for each in sessions.values())


def test_x74_a_delivery_and_a_long_task_have_the_ids_of_their_run(
    gateway: Gateway, tokens: dict[str, str]
) -> None:
    before = {each.get("run") for each in lines(gateway, "runs")}
    gateway.manage("shell", "-v", "0", "-c", SAY)

    def delivered() -> list[Line]:
        return [
            each
            for each in lines(gateway, "runs")
            if each["message"].endswith(" was sent") and each.get("run") not in before
        ]

    wait_until(delivered)
    [line] = delivered()
    assert said(gateway, "runs", run=line["run"], session=line["session"])[0].startswith("a turn")
    answer = ask(gateway, tokens["owner"], "sum this up")
    assert "a long task begins, attempt 1" in said(gateway, "runs", run=answer["run_id"])


def test_x75_no_line_of_the_log_has_a_text_of_a_person(gateway: Gateway) -> None:
    """After the turns above."""
    for process in ("web", "runs"):
        assert SECRET not in gateway.log(process)
