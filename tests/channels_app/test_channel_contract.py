"""[C1] The contract of every plugin: ours, and the documented example, which is found by its entry
point.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from channels_app import base, registry
from channels_app.agent_sessions import results
from channels_app.base import Capability, Channel
from gateway_project.home import BASE_DIR
from tests.core.tools.installed import installed

PROTOCOLS: dict[Capability, type] = {
    Capability.EDIT: base.Edits,
    Capability.DELETE: base.Deletes,
    Capability.FIND: base.FindsSent,
    Capability.TYPING: base.Types,
    Capability.REACTIONS: base.Reacts,
    Capability.FILES: base.SendsFiles,
    Capability.BUTTONS: base.AnswersButtons,
    Capability.DOWNLOAD: base.Downloads,
    Capability.POLLING: base.Polls,
    Capability.TOPICS: base.OpensTopics,
    Capability.ONE_MESSAGE: base.RendersOne,
    Capability.WHOLE: base.AnswersWhole,
}
EXAMPLE = BASE_DIR / "docs" / "example_channel"


@pytest.fixture(autouse=True)
def with_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the example of the documentation as pip would: a package and its entry point."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    points = {"notebook": "latchkey_example:CHANNEL"}
    with installed(tmp_path, points=points, group=registry.GROUP):
        yield
    sys.modules.pop("latchkey_example", None)


@pytest.fixture(params=[*registry.CHANNELS, "notebook"])
def channel(request: pytest.FixtureRequest) -> Channel:
    """Return each registered channel."""
    found = registry.get(request.param)
    assert found is not None
    return found


def test_all_channels_are_known_by_name() -> None:
    assert set(registry.names()) >= {"bridge", "memory", "telegram", "notebook"}


def test_a_capability_is_declared_exactly_when_it_is_there(channel: Channel) -> None:
    for capability, protocol in PROTOCOLS.items():
        side = channel.gateway if capability == Capability.POLLING else channel.outbound
        assert (capability in channel.capabilities) == isinstance(side, protocol), capability


def test_channels_that_find_messages_can_edit_them(channel: Channel) -> None:
    assert Capability.FIND not in channel.capabilities or Capability.EDIT in channel.capabilities


def test_its_id_is_the_name_it_is_registered_by(channel: Channel) -> None:
    assert registry.get(channel.id) is channel
    assert channel.name
    assert channel.description


def test_an_empty_account_names_the_missing_settings(channel: Channel) -> None:
    required = [field.name for field in channel.config.fields if field.required]
    account = base.Account(1, channel.id, "x", config={}, secrets={})
    assert bool(channel.config.problems(account)) == bool(required)


def test_secrets_are_not_in_the_repr_of_an_account() -> None:
    account = base.Account(1, "telegram", "x", config={}, secrets={"token": "canary"})
    assert "canary" not in repr(account)


@pytest.mark.parametrize(
    "text", ["Hello", "a" * 9000, "word " * 3000, "```py\n" + "x = 1\n" * 2000]
)
def test_render_loses_no_word_and_makes_no_empty_block(channel: Channel, text: str) -> None:
    blocks = channel.outbound.render(text)
    assert blocks
    assert all(block["text"].strip() for block in blocks)
    said = "".join(block["text"] for block in blocks)
    for mark in ("x = 1", "word", "a", "Hello"):
        assert said.count(mark) >= text.count(mark)


def test_a_result_of_any_length_is_one_message_that_says_where_it_was_cut(
    channel: Channel,
) -> None:
    """[S3]"""
    (block,) = results.blocks_of(channel, "word " * 4000)
    whole = block["text"].count("word") == 4000
    assert whole != block["text"].endswith("… (truncated)")
    assert len(results.blocks_of(channel, "short")) == 1
