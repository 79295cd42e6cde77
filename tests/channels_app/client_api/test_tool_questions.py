"""Questions of tools as clients see them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from channels_app.asgi.principal import Principal
from channels_app.client_api import acceptance, tool_questions
from channels_app.client_api.acceptance import Ask
from channels_app.client_api.ag_ui import adapter as ag_ui
from channels_app.client_api.ui_stream import adapter as ui_stream
from core.models import McpServer, Run, ToolCall, User
from core.tools.mcp.oauth import sign_ins
from core.tools.mcp.oauth.pages import sign_in_page

pytestmark = pytest.mark.django_db


@pytest.fixture
def caller() -> Principal:
    return Principal(user=User.objects.create(username="ann"), key_id=1, scopes=["chat"])


@pytest.fixture
def run(caller: Principal) -> Run:
    ask = Ask(model="", messages=[{"role": "user", "content": "read it"}])
    found = acceptance.accept(caller, ask, "", None).run
    assert found is not None
    return found


def test_w50_a_sign_in_is_shown_with_its_page_and_is_no_question_of_yes_or_no(
    run: Run, caller: Principal
) -> None:
    """[W50] [W53] To the person who signs in; no answer of a client is a yes to it."""
    user, now = caller.person, timezone.now()
    server = McpServer.objects.create(name="Notes", slug="notes", url="https://n.example/mcp")
    sign_in = sign_ins.create(server, user, now=now)
    row = ToolCall.objects.create(
        run=run,
        call_id="c1",
        tool="mcp_notes_read",
        arguments="{}",
        digest="0" * 64,
        state="waiting",
        kind=ToolCall.Kind.SIGN_IN,
        sign_in=sign_in,
        of_person=True,
        asked_of=user,
        expires_at=now + timedelta(hours=1),
    )
    [question] = tool_questions.of_run(run, caller)
    page = sign_in_page(sign_in.public_id)
    assert (question.sign_in, question.may_answer, question.may_edit) == (page, False, False)
    interrupt = ag_ui.interrupt(question)
    assert interrupt["reason"] == "latchkey:sign_in"
    assert interrupt["metadata"]["latchkey"]["signIn"] == page  # type: ignore[index]
    assert str(interrupt["message"]).endswith(page)
    assert "responseSchema" not in interrupt
    [part] = ui_stream.asked(question)
    assert isinstance(part, dict)
    assert part["type"] == "data-tool-approval"
    assert part["data"]["signIn"] == page  # type: ignore[index]
    other = Principal(user=User.objects.create(username="bob"), key_id=2, scopes=["chat"])
    elsewhere = tool_questions.question_of(row, other)
    assert (elsewhere.sign_in, page in elsewhere.text) == ("", False)
    assert ag_ui.interrupt(elsewhere)["reason"] == "latchkey:waiting_for_owner"
