"""End to end against an independent Bot API server: it refuses the requests that Telegram would
refuse.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from aiohttp import web
from lo_bot_api_emulator import ApiRefusal, LoBotApiEmulator

from gateway_project.processes import listener
from tests.channels_app import choices
from tests.channels_app.client import query
from tests.channels_app.telegram.conftest import FAST
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import Bots, Params, message, number, person
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
ANSWER = " ".join(f"**part{each}**" for each in range(30))
TOKENS = {"main": f"7001:{'B' * 34}", "polled": f"7002:{'C' * 34}"}


class Emulator(LoBotApiEmulator):  # type: ignore[misc]
    """The emulator, with a record of accepted and refused calls."""

    def __init__(self, port: int) -> None:
        """Listen on ``port`` when started."""
        super().__init__(enable_control=True, allow_insecure_loopback_webhooks=True)
        self.port = port
        self.accepted: list[tuple[str, Params]] = []
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()

    @property
    def base(self) -> str:
        """Return the address for ``api_base``."""
        return f"http://127.0.0.1:{self.port}"

    def validate(self, method: str, fields: Params, uploads: Params) -> Any:
        """Validate as the emulator does, which knows no previews: they must be off. Record the
        accepted call.
        """
        previews = fields.pop("link_preview_options", None)
        if previews is not None and json.loads(previews) != {"is_disabled": True}:
            raise ApiRefusal("Bad Request: link_preview_options would fetch an address")
        result = super().validate(method, fields, uploads)
        self.accepted.append((method, dict(fields)))
        return result

    def start(self) -> None:
        """Start in a thread."""
        threading.Thread(target=self._serve, name="emulator", daemon=True).start()
        assert self._ready.wait(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = web.AppRunner(self.app(), access_log=None)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", self.port).start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def ask(self, path: str, **body: Any) -> Params:
        """Send a fixture request, as from another process."""
        request = Request(  # noqa: S310
            f"{self.base}/__fixture/{path}", data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        with urlopen(request, timeout=30) as answer:  # noqa: S310
            return dict(json.loads(answer.read()))

    def sent(self, method: str, chat: int) -> list[Params]:
        """Return the accepted calls of a method in a chat."""
        return [
            fields
            for called, fields in list(self.accepted)
            if called == method and str(fields.get("chat_id")) == str(chat)
        ]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    made = Emulator(listener.free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def bots(
    module_gateways: Callable[..., Gateway],
    emulator: Emulator,
    tmp_path_factory: pytest.TempPathFactory,
) -> Bots:
    """Start a gateway with a bot by webhook and one by polling, both on the emulator."""
    script: Path = tmp_path_factory.mktemp("script") / "script.json"
    rules = [
        {"match": "stream", "steps": [{"text": ANSWER, "tokens_per_second": 8}]},
    ]
    script.write_text(json.dumps(rules))
    gateway = module_gateways(**FAST, LLM_SCRIPT=str(script))
    found = Bots(gateway, FakeBotApi())
    people = [{"name": "owner", "id": 555, "owner": True}, {"name": "guest", "id": 556}]
    found.add("main", people=people, base=emulator.base, tokens=TOKENS)
    found.add("polled", people=people, base=emulator.base, tokens=TOKENS, mode="polling")
    said = gateway.manage("telegram_webhook", "set", "main")
    assert f"{gateway.base_url}/telegram/main/webhook" in said
    return found


def bring(emulator: Emulator, update: Params, *, account: str = "main") -> None:
    """Let a user act on Telegram."""
    plain = {key: value for key, value in update.items() if key != "update_id"}
    emulator.ask("updates", token=TOKENS[account], update=plain)


def test_the_webhook_is_called_with_its_secret_and_the_answer_is_accepted(
    bots: Bots, emulator: Emulator
) -> None:
    bring(emulator, message("hello emulator", user=556))
    wait_until(lambda: emulator.sent("sendMessage", 556))
    (sent,) = emulator.sent("sendMessage", 556)
    assert sent["text"] == "hello emulator"
    assert "works" in bots.gateway.manage("telegram_webhook", "info", "main")


def test_a_failed_delivery_is_repeated_and_answered_once(bots: Bots, emulator: Emulator) -> None:
    bots.gateway.kill("web")
    bring(emulator, message("while you were out", user=557 - 1, message_id=number()))
    bots.gateway.restart("web")
    for _ in range(3):
        emulator.ask("deliver", token=TOKENS["main"])

    def texts() -> list[str]:
        return [str(each["text"]) for each in emulator.sent("sendMessage", 556)]

    wait_until(lambda: "while you were out" in texts())
    assert texts().count("while you were out") == 1


def test_a_stream_is_edited_with_entities_that_an_independent_server_accepts(
    bots: Bots, emulator: Emulator
) -> None:
    bring(emulator, message("stream please", user=555))
    plain = ANSWER.replace("*", "")
    wait_until(lambda: any(each["text"] == plain for each in emulator.sent("editMessageText", 555)))
    final = emulator.sent("editMessageText", 555)[-1]
    entities = json.loads(final["entities"])
    assert {each["type"] for each in entities} == {"bold"}
    assert len(entities) == 30


def test_a_polled_bot_answers_and_409_is_shown(bots: Bots, emulator: Emulator) -> None:
    bring(emulator, message("polled hello", user=556), account="polled")
    wait_until(
        lambda: "polled hello" in [each["text"] for each in emulator.sent("sendMessage", 556)]
    )
    bots.gateway.manage("shell", "--no-imports", "-c", STEAL.format(base=emulator.base))
    wait_until(lambda: "Conflict" in bots.gateway.manage("shell", "--no-imports", "-c", STATUS))


STEAL = (
    "import json; from urllib.request import Request, urlopen; "
    "urlopen(Request('{base}/bot" + TOKENS["polled"] + "/setWebhook', "
    "data=json.dumps({{'url': 'http://127.0.0.1:9/x'}}).encode(), "
    "headers={{'Content-Type': 'application/json'}}))"
)
STATUS = (
    "from core.models import ChannelAccount; "
    "print(ChannelAccount.objects.get(name='polled').status_text)"
)


def test_a_file_is_fetched_and_named(bots: Bots, emulator: Emulator) -> None:
    emulator.assets["doc1"] = {"data": b"hello file", "filename": "notes.txt", "size": 10}
    document: Params = {
        "file_id": "doc1",
        "file_unique_id": "u1",
        "file_name": "notes",
        "file_size": 10,
    }
    bring(emulator, message(user=556, document=document, caption="read this"))
    wait_until(
        lambda: any(
            "[document message received]\nName: notes" in each["text"]
            for each in emulator.sent("sendMessage", 556)
        )
    )


def test_a_keyboard_is_accepted_and_its_button_decides(bots: Bots, emulator: Emulator) -> None:
    bring(emulator, message("I am home", user=555))
    wait_until(lambda: "I am home" in [e["text"] for e in emulator.sent("sendMessage", 555)])
    bring(emulator, message("let me in", user=900))
    wait_until(lambda: any("reply_markup" in each for each in emulator.sent("sendMessage", 555)))
    sent = next(each for each in emulator.sent("sendMessage", 555) if "reply_markup" in each)
    keyboard = json.loads(sent["reply_markup"])["inline_keyboard"]
    press = {
        "id": str(number()),
        "from": person(555),
        "chat_instance": "1",
        "data": keyboard[0][0]["callback_data"],
        "message": {"message_id": 1, "date": 1, "chat": {"id": 555, "type": "private"}},
    }
    bring(emulator, {"update_id": number(), "callback_query": press})
    wait_until(lambda: [e["text"] for e in emulator.sent("sendMessage", 900)] == ["let me in"])
    wait_until(lambda: any("Approved" in e["text"] for e in emulator.sent("editMessageText", 555)))
    assert not [each for each in emulator.requests if each["status"] == 400], emulator.requests


def test_c8_two_people_choose_their_assistants_on_telegram(bots: Bots, emulator: Emulator) -> None:
    """A guest sees what is offered to guests, and chooses for themselves alone."""
    choices.make_in(bots.gateway, listed="owner", url="")

    def answer(text: str, user: int) -> str:
        """Bring a message; return the next one of the bot."""
        before = len(emulator.sent("sendMessage", user))
        bring(emulator, message(text, user=user))
        wait_until(lambda: len(emulator.sent("sendMessage", user)) > before, what=text)
        return str(emulator.sent("sendMessage", user)[before]["text"])

    assert "/assistant — " in answer("/help", 556)
    assert choices.names(answer("/assistant", 556)) == ["assistant", "coder"]
    assert choices.names(answer("/assistant", 555)) == ["assistant", "coder", "hidden", "poet"]
    assert "that you may choose" in answer("/assistant poet", 556)
    assert answer("/assistant coder", 556).startswith("Coder answers: it was chosen")
    assert answer("/assistant poet", 555).startswith("Poet answers: it was chosen")
    for user in (555, 556):
        assert answer(f"I am {user}", user) == f"I am {user}"
    by_person = """
        SELECT run.text, assistant.slug FROM core_run run
        JOIN core_assistant assistant ON assistant.id = run.assistant_id
        WHERE run.text LIKE 'I am 55%' ORDER BY run.text
    """
    assert query(bots.gateway, by_person) == [("I am 555", "poet"), ("I am 556", "coder")]
    choices.offer(bots.gateway, "coder", "nobody")
    gone = answer("/assistant", 556)
    assert gone.startswith("The assistant that you chose here is no longer offered.\n")
    assert "There is no other one to choose." in gone
