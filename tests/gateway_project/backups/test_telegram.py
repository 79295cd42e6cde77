"""A gateway with Telegram bots goes back to an older state: which messages repeat [X55]. End to end
against an independent Bot API server, whose bots come by webhook and by polling.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lo_bot_api_emulator import ApiRefusal

from gateway_project.processes import listener
from tests.channels_app.client import query
from tests.channels_app.telegram.conftest import FAST
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import Bots, Params, message
from tests.channels_app.telegram.test_emulator import TOKENS, Emulator, bring
from tests.conftest import DatabaseMaker
from tests.gateway_project.backups import pairs
from tests.gateways import Gateway
from tests.models_chaos.owner import signed_in
from tests.servers import Postgres, wait_until

pytestmark = pytest.mark.slow
# Long enough to be shown while it grows.
HALF = "This is the first half of an answer that was cut off"
WHOLE = f"{HALF}, and this is the other half."
HANGING = [
    {"match": "^held", "steps": [{"hang": True}]},
    {"match": "^grown", "steps": [{"text": HALF}, {"hang": True}]},
]
ANSWERING = [{"match": "^grown", "steps": [{"text": WHOLE}]}]
CASES = ("early", "held", "grown", "late")
# Chat -> what is asked there, by the bot of webhook and of polling.
CHATS = {bot: dict(enumerate(CASES, start)) for bot, start in (("main", 600), ("polled", 700))}


class Deaf(Emulator):
    """The emulator; while it is ``deaf``, no confirmation of a polled update arrives."""

    deaf = False

    def validate(self, method: str, fields: Params, uploads: Params) -> Any:
        if self.deaf and method == "getUpdates" and int(fields.get("offset") or 0):
            raise ApiRefusal("Bad Gateway", 502)
        return super().validate(method, fields, uploads)

    def shown(self, chat: int) -> list[str]:
        """Return the texts of the bots in a chat, as edited last."""
        sent: list[str] = []
        for method, fields in list(self.accepted):
            if str(fields.get("chat_id")) != str(chat):
                continue
            if method == "sendMessage":
                sent.append(str(fields["text"]))
            elif method == "editMessageText" and fields["text"] != sent[-1]:
                sent[-1] = str(fields["text"])
        return sent


@pytest.fixture
def emulator() -> Iterator[Deaf]:
    made = Deaf(listener.free_port())
    made.start()
    yield made
    made.stop()


@dataclass
class World:
    """The gateway that is backed up and the one that is restored, on one Bot API."""

    emulator: Deaf
    old: Bots
    new: Bots
    brought: dict[str, Params]

    def bring(self, bots: Bots, *cases: str) -> None:
        """Let people ask; an update that comes to the webhook can come again."""
        for bot, chats in CHATS.items():
            for chat, case in chats.items():
                if case not in cases:
                    continue
                update = message(f"{case} of {bot}", user=chat)
                if bot == "polled":
                    bring(self.emulator, update, account=bot)
                    continue
                self.brought[case] = update
                bots.bring(update)

    def shown(self) -> dict[str, list[list[str]]]:
        """Return what the people see, by case: of the bot by webhook, of that by polling."""
        return {
            case: [
                self.emulator.shown(chat)
                for chats in CHATS.values()
                for chat, each in chats.items()
                if each == case
            ]
            for case in CASES
        }

    def see(self, case: str, text: str, *, times: int = 1) -> None:
        """Wait until both people of a case see ``text`` so many times and nothing else."""
        both = [[text.format(bot)] * times for bot in CHATS]
        wait_until(lambda: self.shown()[case] == both, seconds=9, what=lambda: str(self.shown()))


@pytest.fixture
def world(
    new_database: DatabaseMaker, postgres: Postgres | None, tmp_path: Path, emulator: Deaf
) -> Iterator[World]:
    urls = {"old": new_database(), "new": pairs.empty_url(tmp_path / "new", postgres)}
    extra = {**FAST, "RUN_LEASE_SECONDS": "2"}
    old, new = (
        Bots(pairs.gateway(tmp_path / name, url, script=HANGING, **extra), FakeBotApi())
        for name, url in urls.items()
    )
    everybody = [chat for chats in CHATS.values() for chat in chats]
    known = [{"name": f"p{each}", "id": each} for each in everybody]
    for bot, mode in (("main", "webhook"), ("polled", "polling")):
        old.add(bot, mode=mode, people=known, base=emulator.base, tokens=TOKENS)
    old.gateway.start()
    yield World(emulator, old, new, {})
    old.gateway.stop()
    new.gateway.stop()


def answer_all(gateway: Gateway) -> None:
    """Let the model answer what it has left open."""
    (gateway.folder / "script.json").write_text(json.dumps(ANSWERING))
    gateway.kill("runs")
    gateway.restart("runs")


def test_x55_only_messages_that_the_manual_names_repeat_after_a_restore(
    world: World, tmp_path: Path
) -> None:
    """``early``: answered before the backup, unconfirmed; its update comes again. ``held``:
    answered after the backup. ``grown``: half of it was shown before. ``late``: asked after the
    backup and answered; its update comes again."""
    old, new, emulator = world.old, world.new, world.emulator
    world.bring(old, "held", "grown")
    world.see("grown", HALF)
    emulator.deaf = True
    world.bring(old, "early")
    world.see("early", "early of {}")
    running = "SELECT id FROM core_run WHERE state = 'running'"
    wait_until(lambda: len(query(old.gateway, running)) == 4)
    backup = pairs.backed_up(old.gateway, tmp_path / "backups")
    answer_all(old.gateway)
    world.see("held", "held of {}")
    world.see("grown", WHOLE)
    world.bring(old, "late")
    world.see("late", "late of {}")
    old.gateway.stop()

    emulator.deaf = False
    said = pairs.restored(new.gateway, backup)
    assert "4 questions and 0 messages" in said
    (new.gateway.folder / "script.json").write_text(json.dumps(ANSWERING))
    new.gateway.start()
    for case in ("early", "late"):
        new.bring(world.brought[case])
    world.see("late", "late of {}", times=2)  # unknown here, and not confirmed
    world.see("grown", WHOLE)  # not brought back to its half
    with signed_in(new.gateway) as owner:
        pairs.decide(owner, go=True)
    world.see("held", "held of {}", times=2)  # let go by the owner
    wait_until(lambda: not query(new.gateway, "SELECT id FROM core_run WHERE finished_at IS NULL"))
    sent = "SELECT id FROM core_delivery WHERE state <> 'sent'"
    wait_until(lambda: not query(new.gateway, sent))
    world.see("early", "early of {}")
    world.see("grown", WHOLE)  # the message that was there was edited
    world.see("late", "late of {}", times=2)
