"""The page's pure modules under node: preview, conversation, outbox, connection."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.utils.translation import gettext

from channels_app.webchat import views
from core.lib.interface_language import spoken
from core.tools import phrases, registry
from core.tools.sentences import TOOL_NAMES
from tests import ROOT

HERE = Path(__file__).parent
MODULES = ROOT / "channels_app" / "static" / "latchkey"


@pytest.mark.parametrize("suite", sorted(path.name for path in (HERE / "js").glob("*.test.mjs")))
def test_d3_m1_the_pages_modules_keep_their_promises(suite: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    done = subprocess.run(
        [node, "--test", str(HERE / "js" / suite)],
        env={**os.environ, "LATCHKEY_JS": str(MODULES)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_every_module_of_the_page_is_preloaded() -> None:
    seen: set[str] = set()
    waiting = {"chat.js"}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        source = (MODULES / name).read_text(encoding="utf-8")
        waiting |= set(re.findall(r'from "\./(.+?)"', source)) - seen
    assert {f"latchkey/{name}" for name in seen - {"chat.js"}} == set(views.modules())


def test_rx3_no_module_writes_html_but_through_the_one_policy() -> None:
    sinks = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        " eval(",
    )
    found = {
        (path.name, sink)
        for path in MODULES.glob("*.js")
        for sink in sinks
        if sink in path.read_text(encoding="utf-8")
    }
    assert found == {("dom.js", "innerHTML")}


def test_each_tool_of_ours_has_its_own_words_and_the_page_has_the_same() -> None:
    """A question names it with them: two tools must not look alike."""
    source = (MODULES / "messages.js").read_text(encoding="utf-8")
    assert dict(re.findall(r'^  (\w+): gettext\("(.+?)"\),$', source, re.MULTILINE)) == TOOL_NAMES
    assert TOOL_NAMES.keys() == registry.TOOLS.keys()
    for language in ("en", *phrases.ORDER):
        with spoken(language):
            assert len(set(map(gettext, TOOL_NAMES.values()))) == len(TOOL_NAMES)
