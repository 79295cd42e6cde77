"""[T2], [T4], [D4]: which text a callback and the store have, for each format."""

from pathlib import Path
from typing import Any

import pytest

from core.models import Message, Run
from tests.channels_app.bridge.conftest import Bridge, Callback
from tests.channels_app.bridge.test_bridge import script
from tests.channels_app.running import until

pytestmark = pytest.mark.usefixtures("runner", "owner")
MARKDOWN = "**Total:** 2*3*4 = 24, see `a_b`"
PLAIN = "src/**/*.ts and user__name__field and (*_*) and 10*20*30"
SHOWN = {
    "whatsapp": "*Total:* 2*3*4 = 24, see `a_b`",
    "plain": "Total: 2*3*4 = 24, see a_b",
    "none": MARKDOWN,
}


@pytest.mark.parametrize("shape", list(SHOWN))
@pytest.mark.parametrize("said", [MARKDOWN, PLAIN], ids=["Markdown", "plain text"])
def test_t2_t4_only_the_channel_that_shows_it_converts_an_answer(
    shape: str,
    said: str,
    bridge: Bridge,
    callback: Callback,
    settings: Any,
    tmp_path: Path,
) -> None:
    """The run and the transcript keep what the model wrote; plain text is the same everywhere."""
    markdown = said == MARKDOWN
    settings.OUTBOUND_MARKDOWN_FORMAT = shape
    settings.LLM_SCRIPT = script(tmp_path, "", [{"text": said}])
    assert bridge.ask(text="go", request_id="r1")[0] == 202
    until(lambda: callback.got)
    assert callback.got[0]["text"] == (SHOWN[shape] if markdown else PLAIN)
    assert callback.got[0]["format"] == "plain"
    run = Run.objects.get()
    assert (run.result["text"], run.result["format"]) == (said, "markdown" if markdown else "plain")
    assert Message.objects.get(role="assistant").text == said
