"""[C1] Channels of other packages, found by entry point; the others work without a broken one."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from channels_app import registry
from channels_app.ops.doctor import work
from channels_app.worker.account_watcher import Gateways
from core.models import ChannelAccount
from gateway_project.home import BASE_DIR
from tests.core.tools.installed import installed

EXAMPLE = BASE_DIR / "docs" / "example_channel"
CODE = """
from latchkey_example import Notebook, NotebookGateway


class Gateway(NotebookGateway):
    closed = 0

    async def close(self):
        self.closed += 1


class Diary(Notebook):
    id = "diary"
    gateway = Gateway()


class Bridge(Notebook):
    id = "bridge"


DIARY, BRIDGE, CLASS, ODD = Diary(), Bridge(), Notebook, object()
"""
BROKEN = {
    "gone": ("no_such_package:CHANNEL", "ModuleNotFoundError"),
    "missing": ("latchkey_scratch:NOTHING", "AttributeError"),
    "class": ("latchkey_scratch:CLASS", "is a class"),
    "odd": ("latchkey_scratch:ODD", "it has no capabilities, config,"),
    "other": ("latchkey_scratch:DIARY", "Its id is diary"),
    "bridge": ("latchkey_scratch:BRIDGE", "another channel with the id bridge"),
}


@pytest.fixture
def with_broken_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a good channel and broken ones."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    points = {name: value for name, (value, _) in BROKEN.items()}
    points["diary"] = "latchkey_scratch:DIARY"
    with installed(tmp_path, points=points, code=CODE, group=registry.GROUP):
        yield
    sys.modules.pop("latchkey_example", None)


def test_c1_broken_channels_are_logged_and_shown_and_the_others_work(
    with_broken_ones: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert registry.names() == sorted({*registry.CHANNELS, "diary"})
    findings = list(work.packages_that_fail())
    assert len(findings) == len(BROKEN)
    for name, (_, said) in BROKEN.items():
        (finding,) = [each for each in findings if f"channel {name} cannot" in each.what]
        assert said in finding.what
        assert f"the channel {name} cannot be loaded" in caplog.text


def test_c1_an_owner_adds_accounts_beside_a_broken_channel(
    with_broken_ones: None, admin_client: Client
) -> None:
    page = admin_client.get("/admin/core/channelaccount/add/")
    assert page.status_code == 200
    assert "?channel=diary" in page.content.decode()
    assert "?channel=odd" not in page.content.decode()


@pytest.mark.django_db(transaction=True)
def test_c1_the_account_of_a_broken_channel_keeps_no_other_from_being_looked_after(
    with_broken_ones: None,
) -> None:
    for channel, config in (("gone", {}), ("diary", {"path": "/nowhere/notes"})):
        ChannelAccount.objects.create(channel=channel, name="main", config=config)

    async def look() -> None:
        gateways = Gateways(worker="one")
        await gateways.look_after()
        await gateways.close()

    asyncio.run(look())
    assert "/nowhere" in ChannelAccount.objects.get(channel="diary").status_text


def test_c1_channels_of_other_packages_are_closed_with_the_loop(with_broken_ones: None) -> None:
    diary: Any = registry.get("diary")
    asyncio.run(registry.close())
    assert diary.gateway.closed == 1


def test_c1_a_channel_that_cannot_close_keeps_no_worker_from_its_end(
    with_broken_ones: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    diary: Any = registry.get("diary")
    monkeypatch.setattr(diary.gateway, "close", None)
    asyncio.run(registry.close())
    assert "a channel could not close its connections" in caplog.text
