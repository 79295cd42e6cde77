"""Clients of agents from npm with tools that wait for a yes: ``@ag-ui/client`` and ``ai``."""

import pytest

from tests.channels_app.client_api.asking_tools import asking, keys
from tests.clients.conftest import run_node
from tests.gateways import Gateway
from tests.npm import Packages

__all__ = ["asking", "keys"]
pytestmark = pytest.mark.slow


def test_w52_the_ag_ui_client_runs_the_gateway_as_its_agent(
    packages: Packages, asking: Gateway, keys: dict[str, str]
) -> None:
    """``HttpAgent``: its verifier accepts every stream and warns of nothing; tools, interrupts."""
    found = run_node(packages, asking, keys["member"], "ag_ui.mjs")
    assert found["warnings"] == []
    assert found["roles"] == ["user", "reasoning", "activity", "assistant", "tool"]
    assert {"RUN_STARTED", "STATE_SNAPSHOT", "CUSTOM", "RUN_FINISHED"} <= {*found["kinds"]}
    assert found["state"] == {"page": 1}
    assert found["again"] == "one two three four"
    assert found["call"] == {"name": "get_weather", "arguments": '{"city":"Paris"}'}
    assert found["after_tool"] == "It is sunny."
    assert found["broken"] == ["It broke"]
    assert found["pending"] == ["tool_call"]
    assert "pending interrupt" in found["blocked"]
    assert ["tool", "ok"] in found["resumed"]
    assert found["resumed"][-1] == ["assistant", "The diary: done."]
    assert found["pending_after"] == []
    assert found["last"] == "I heard: thanks"
    assert found["fresh"] == ["user", "assistant", "assistant", "user", "assistant"]


@pytest.mark.parametrize("packages", [".", "previous"], indirect=True, ids=["newest", "before"])
def test_w53_a_chat_of_the_ai_sdk_answers_questions_of_tools(
    packages: Packages, asking: Gateway, keys: dict[str, str]
) -> None:
    """The page's yes or no is sent by itself, and the answer goes on in the same message."""
    found = run_node(packages, asking, keys["member"], "ui_approvals.mjs")
    assert found["errors"] == []
    for name, state in (("allowed", "output-available"), ("denied", "output-denied")):
        chat = found[name]
        assert chat["asked"]["state"] == "approval-requested"
        assert chat["asked"]["input"] == {"to": "Ada"}
        assert (chat["count"], [each["state"] for each in chat["tools"]]) == (2, [state])
        assert chat["last"] == ["I heard: thanks"]
    assert "dynamic-tool" not in found["waiting"]
    assert found["data"] | {"askedOf": "owner", "mayAnswer": False} == found["data"]
    assert found["metadata"] == ["runId", "usage"]
    assert (found["stopped"]["status"], found["stopped"]["text"]) == ("ready", ["Begun. "])
