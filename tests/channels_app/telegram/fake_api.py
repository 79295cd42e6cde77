"""A Bot API server for tests, in a thread, with behaviour of Telegram that the emulator lacks.

429 with ``retry_after``, reactions, topics, time-outs after the effect, blocked users, 409, files.
``chats`` are the visible messages; ``calls`` are all requests, in order.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from gateway_project.processes import listener
from tests.channels_app.telegram import rich

Params = dict[str, Any]
START_SECONDS = 240.0
TEXT_LIMIT = 4096
NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup are "
    "exactly the same as a current content and reply markup of the message"
)


@dataclass(slots=True)
class Call:
    """One request of a bot."""

    token: str
    method: str
    params: Params
    at: float


@dataclass(slots=True)
class Shown:
    """A message of a bot in a chat, in its current state."""

    id: int
    chat: int
    thread: int
    text: str
    reply_to: int
    entities: list[Params]
    keyboard: list[list[Params]]
    kind: str = "text"
    file: bytes = b""
    filename: str = ""
    rich: list[Params] = field(default_factory=list)
    history: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Failure:
    """A prepared failure: with ``effect`` the call is carried out all the same; ``cut`` ends the
    connection.
    """

    method: str
    status: int
    description: str
    parameters: Params
    chat: int = 0
    times: int = 1
    effect: bool = False
    cut: bool = False
    when: Callable[[Params], bool] | None = None


@dataclass
class FakeBotApi:
    """One server for any number of bots; everything is guarded by ``lock``."""

    port: int = field(default_factory=listener.free_port)
    calls: list[Call] = field(default_factory=list)
    chats: dict[tuple[str, int], dict[int, Shown]] = field(default_factory=dict)
    reactions: dict[tuple[str, int, int], str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    webhooks: dict[str, Params] = field(default_factory=dict)
    waiting: dict[str, list[Params]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    webhook_info: Params = field(default_factory=dict)
    polls: dict[str, int] = field(default_factory=dict)
    forums: set[int] = field(default_factory=set)
    topics: dict[int, str] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)
    people: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    last_ids: dict[tuple[str, int], int] = field(default_factory=dict)
    lost_words: list[tuple[str, int, int]] = field(default_factory=list)
    with_drafts: set[str] = field(default_factory=set)  # tokens
    drafts: dict[tuple[str, int], str] = field(default_factory=dict)  # until a message is sent
    with_rich: set[str] = field(default_factory=set)  # tokens
    refused_word: str = ""  # a rich message with it is refused
    delay: float = 0.0
    hook: Callable[[str, Params, str], None] | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _ready: threading.Event = field(default_factory=threading.Event)

    @property
    def base(self) -> str:
        """Return the address for ``api_base``."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Serve until :meth:`stop`."""
        threading.Thread(target=self._serve, name="fake-bot-api", daemon=True).start()
        assert self._ready.wait(START_SECONDS)

    def stop(self) -> None:
        """End the server."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def fail(
        self,
        method: str,
        status: int,
        description: str = "",
        *,
        chat: int = 0,
        times: int = 1,
        effect: bool = False,
        cut: bool = False,
        when: Callable[[Params], bool] | None = None,
        **parameters: Any,
    ) -> None:
        """Arrange that the next calls of ``method`` (in ``chat``) fail."""
        with self.lock:
            self.failures.append(
                Failure(method, status, description, parameters, chat, times, effect, cut, when)
            )

    def refuse_entities(self, method: str) -> None:
        """Arrange that all calls of ``method`` with entities are refused."""
        words = "Bad Request: can't parse entities"
        self.fail(method, 400, words, times=999, when=lambda params: bool(params.get("entities")))

    def shown(self, token: str, chat: int, thread: int | None = None) -> list[Shown]:
        """Return the bot's current messages in a chat, in order."""
        with self.lock:
            found = list(self.chats.get((token, chat), {}).values())
        return [each for each in found if thread is None or each.thread == thread]

    def texts(self, token: str, chat: int, thread: int | None = None) -> list[str]:
        """Return the texts of :meth:`shown`."""
        return [each.text for each in self.shown(token, chat, thread)]

    def take_id(self, token: str, chat: int) -> int:
        """Return the id of the next message in a chat, as the bot ``token`` sees it.

        One sequence a bot for private chats and basic groups, one for each supergroup; people's
        messages count in it too.
        """
        with self.lock:
            key = sequence_of(token, chat)
            self.last_ids[key] = self.last_ids.get(key, 1000) + 1
            return self.last_ids[key]

    def say(self, token: str, chat: int, message_id: int = 0) -> int:
        """Put a user's message into a chat; return its id, a new one unless it is given."""
        with self.lock:
            number = message_id or self.take_id(token, chat)
            key = sequence_of(token, chat)
            self.last_ids[key] = max(self.last_ids.get(key, 1000), number)
            self.people.setdefault((token, chat), set()).add(number)
            return number

    def of(self, method: str, chat: int | None = None) -> list[Call]:
        """Return the calls of one method."""
        with self.lock:
            return [
                each
                for each in self.calls
                if each.method == method and (chat is None or each.params.get("chat_id") == chat)
            ]

    def _serve(self) -> None:
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/bot{token}/{method}", self._call)
        app.router.add_get("/file/bot{token}/{path:.*}", self._file)
        runner = web.AppRunner(app, access_log=None)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", self.port).start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _file(self, request: web.Request) -> web.Response:
        content = self.files.get(request.match_info["path"])
        return web.Response(status=404) if content is None else web.Response(body=content)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        token, method = request.match_info["token"], request.match_info["method"]
        params = await read_params(request)
        if self.delay:
            await asyncio.sleep(self.delay)
        with self.lock:
            if method != "getUpdates":
                self.calls.append(Call(token, method, params, time.monotonic()))
            failure = self._failure(method, params)
        if token in self.revoked:
            return answer(401, "Unauthorized")
        if failure is not None and not failure.effect:
            return self._failed(request, failure)
        if token in self.revoked:
            return answer(401, "Unauthorized")
        try:
            if self.hook is not None:
                self.hook(method, params, "before")
            result = await self._do(token, method, params)
        except Refusal as error:
            return answer(error.status, error.description)
        if self.hook is not None:
            self.hook(method, params, "after")
        if failure is not None:
            return self._failed(request, failure)
        return web.json_response({"ok": True, "result": result})

    def _failure(self, method: str, params: Params) -> Failure | None:
        for failure in self.failures:
            if failure.method not in {method, "*"}:
                continue
            if failure.chat and failure.chat != params.get("chat_id"):
                continue
            if failure.when is not None and not failure.when(params):
                continue
            failure.times -= 1
            if failure.times <= 0:
                self.failures.remove(failure)
            return failure
        return None

    def _failed(self, request: web.Request, failure: Failure) -> web.StreamResponse:
        if failure.cut:
            assert request.transport is not None
            request.transport.close()
        return answer(failure.status, failure.description, failure.parameters)

    async def _do(self, token: str, method: str, params: Params) -> Any:
        if method == "getUpdates":
            return await self._get_updates(token, params)
        with self.lock:
            work = getattr(self, f"_do_{method}", None)
            if work is None:
                raise Refusal(404, "Not Found: method not found")
            return work(token, params)

    def _do_getMe(self, token: str, params: Params) -> Params:  # noqa: N802
        del params
        number = int(token.partition(":")[0])
        return {"id": number, "is_bot": True, "first_name": "Bot", "username": f"bot{number}_bot"}

    def _do_setMyCommands(self, token: str, params: Params) -> bool:  # noqa: N802
        return True

    def _do_setWebhook(self, token: str, params: Params) -> bool:  # noqa: N802
        self.webhooks[token] = params
        return True

    def _do_deleteWebhook(self, token: str, params: Params) -> bool:  # noqa: N802
        self.webhooks.pop(token, None)
        return True

    def _do_getWebhookInfo(self, token: str, params: Params) -> Params:  # noqa: N802
        url = self.webhooks.get(token, {}).get("url", "")
        return {"url": url, "pending_update_count": 0, **self.webhook_info}

    def _do_sendMessage(self, token: str, params: Params) -> Params:  # noqa: N802
        parse(params)
        check_text(params)
        self.drafts.pop((token, int(params["chat_id"])), None)
        return self._show(token, params, text=params["text"])

    def _do_sendMessageDraft(self, token: str, params: Params) -> bool:  # noqa: N802
        if token not in self.with_drafts:
            raise Refusal(404, "Not Found: method not found")
        chat, number = int(params["chat_id"]), int(params["draft_id"])
        if chat < 0 or not 0 < number < 2**31:
            raise Refusal(400, "Bad Request: TEXTDRAFT_PEER_INVALID")
        check_text(params)
        self.drafts[token, chat] = params["text"]
        return True

    def _do_sendRichMessage(self, token: str, params: Params) -> Params:  # noqa: N802
        text = self._rich_text(token, params)
        self.drafts.pop((token, int(params["chat_id"])), None)
        return self._show(token, params, text=text)

    def _do_sendRichMessageDraft(self, token: str, params: Params) -> bool:  # noqa: N802
        text = self._rich_text(token, params)
        return self._do_sendMessageDraft(token, {**params, "text": text[:TEXT_LIMIT]})

    def _rich_text(self, token: str, params: Params) -> str:
        if token not in self.with_rich:
            raise Refusal(404, "Not Found: method not found")
        if self.refused_word and self.refused_word in str(params["rich_message"]):
            raise Refusal(400, "Bad Request: RICH_MESSAGE_EMAIL_INVALID")
        try:
            return rich.check(params["rich_message"])
        except rich.InvalidError as error:
            raise Refusal(400, f"Bad Request: can't parse InputRichBlock: {error}") from error

    def _do_getChat(self, token: str, params: Params) -> Params:  # noqa: N802
        chat = int(params["chat_id"])
        return {"id": chat, "type": "supergroup", "is_forum": chat in self.forums}

    def _do_createForumTopic(self, token: str, params: Params) -> Params:  # noqa: N802
        if int(params["chat_id"]) not in self.forums:
            raise Refusal(400, "Bad Request: the chat is not a forum")
        thread = self.take_id(token, int(params["chat_id"]))
        self.topics[thread] = str(params["name"])
        return {"message_thread_id": thread, "name": params["name"], "icon_color": 0}

    def _do_closeForumTopic(self, token: str, params: Params) -> bool:  # noqa: N802
        if self.topics.pop(int(params["message_thread_id"]), None) is None:
            raise Refusal(400, "Bad Request: TOPIC_ID_INVALID")
        return True

    def _do_sendPhoto(self, token: str, params: Params) -> Params:  # noqa: N802
        return self._show(token, params, text=params.get("caption", ""), kind="photo")

    def _do_sendDocument(self, token: str, params: Params) -> Params:  # noqa: N802
        return self._show(token, params, text=params.get("caption", ""), kind="document")

    def _do_sendAudio(self, token: str, params: Params) -> Params:  # noqa: N802
        return self._show(token, params, text=params.get("caption", ""), kind="audio")

    def _show(self, token: str, params: Params, *, text: str, kind: str = "text") -> Params:
        answered = int((params.get("reply_parameters") or {}).get("message_id", 0))
        if answered:
            self.say(token, int(params["chat_id"]), answered)
        message_id = self.take_id(token, int(params["chat_id"]))
        content, filename = params.get(f"{kind}_file", (b"", ""))
        chat = int(params["chat_id"])
        self.chats.setdefault((token, chat), {})[message_id] = Shown(
            id=message_id,
            chat=chat,
            thread=int(params.get("message_thread_id") or 0),
            text=text,
            reply_to=answered,
            entities=params.get("entities") or [],
            keyboard=(params.get("reply_markup") or {}).get("inline_keyboard", []),
            kind=kind,
            file=content,
            filename=filename,
            rich=params.get("rich_message", {}).get("blocks", []),
            history=[text],
        )
        return sent(message_id, chat, thread=int(params.get("message_thread_id") or 0))

    def _ours(self, token: str, params: Params) -> Shown:
        """Return the message that a bot wants to edit: one of its own."""
        chat, message_id = int(params["chat_id"]), int(params["message_id"])
        found = self.chats.get((token, chat), {}).get(message_id)
        if found is not None:
            return found
        if message_id in self.people.get((token, chat), set()):
            raise Refusal(400, "Bad Request: message can't be edited")
        raise Refusal(400, "Bad Request: message to edit not found")

    def _do_editMessageCaption(self, token: str, params: Params) -> Params:  # noqa: N802
        found = self._ours(token, params)
        if found.kind == "text":
            raise Refusal(400, "Bad Request: there is no caption in the message to edit")
        if found.text == params.get("caption", ""):
            raise Refusal(400, NOT_MODIFIED)
        found.text = params.get("caption", "")
        found.history.append(found.text)
        return sent(found.id, found.chat, thread=found.thread)

    def _do_editMessageReplyMarkup(self, token: str, params: Params) -> Params:  # noqa: N802
        found = self._ours(token, params)
        keyboard = (params.get("reply_markup") or {}).get("inline_keyboard", [])
        if found.keyboard == keyboard:
            raise Refusal(400, NOT_MODIFIED)
        found.keyboard = keyboard
        return sent(found.id, found.chat, thread=found.thread)

    def _do_editMessageText(self, token: str, params: Params) -> Params:  # noqa: N802
        if "rich_message" in params and token in self.with_rich:
            params["text"] = self._rich_text(token, params)
        else:
            parse(params)
            check_text(params)
        found = self._ours(token, params)
        if found.kind != "text":
            raise Refusal(400, "Bad Request: there is no text in the message to edit")
        keyboard = (params.get("reply_markup") or {}).get("inline_keyboard", [])
        blocks = params.get("rich_message", {}).get("blocks", [])
        if (found.text, found.keyboard, found.rich) == (params["text"], keyboard, blocks):
            raise Refusal(400, NOT_MODIFIED)
        found.text, found.keyboard, found.rich = params["text"], keyboard, blocks
        found.entities = params.get("entities") or []
        found.history.append(params["text"])
        return sent(found.id, found.chat, thread=found.thread)

    def _do_deleteMessage(self, token: str, params: Params) -> bool:  # noqa: N802
        chat, message_id = int(params["chat_id"]), int(params["message_id"])
        if message_id in self.people.get((token, chat), set()) and chat > 0:
            self.people[token, chat].discard(message_id)  # in private chats bots may
            self.lost_words.append((token, chat, message_id))
            return True
        if self.chats.get((token, chat), {}).pop(message_id, None) is None:
            raise Refusal(400, "Bad Request: message to delete not found")
        return True

    def _do_setMessageReaction(self, token: str, params: Params) -> bool:  # noqa: N802
        place = (token, int(params["chat_id"]), int(params["message_id"]))
        if place[2] not in self.chats.get(place[:2], {}):
            self.say(*place)
        given = params.get("reaction") or []
        if given:
            self.reactions[place] = given[0]["emoji"]
        else:
            self.reactions.pop(place, None)
        return True

    def _do_sendChatAction(self, token: str, params: Params) -> bool:  # noqa: N802
        return True

    def _do_answerCallbackQuery(self, token: str, params: Params) -> bool:  # noqa: N802
        return True

    def _do_getFile(self, token: str, params: Params) -> Params:  # noqa: N802
        path = f"files/{params['file_id']}"
        if path not in self.files:
            raise Refusal(400, "Bad Request: invalid file_id")
        return {
            "file_id": params["file_id"],
            "file_unique_id": "u",
            "file_size": len(self.files[path]),
            "file_path": path,
        }

    async def _get_updates(self, token: str, params: Params) -> list[Params]:
        if self.webhooks.get(token, {}).get("url"):
            raise Refusal(409, "Conflict: can't use getUpdates method while webhook is active")
        self.polls[token] = self.polls.get(token, 0) + 1
        mine = self.polls[token]
        deadline = time.monotonic() + min(float(params.get("timeout") or 0), 2.0)
        while True:
            with self.lock:
                if self.polls[token] != mine:
                    raise Refusal(409, "Conflict: terminated by other getUpdates request")
                offset = int(params.get("offset") or 0)
                queue = self.waiting.setdefault(token, [])
                # An offset far ahead of the ids counts as none, as after a week without updates.
                if all(each["update_id"] + 11 >= offset for each in queue[-1:]):
                    queue[:] = [each for each in queue if each["update_id"] >= offset]
                if queue or time.monotonic() > deadline:
                    return list(queue[: int(params.get("limit") or 100)])
            await asyncio.sleep(0.02)


class Refusal(Exception):
    """A refusal of the server."""

    def __init__(self, status: int, description: str) -> None:
        """Take Telegram's wording."""
        super().__init__(description)
        self.status = status
        self.description = description


def parse(params: Params) -> None:
    """Read MarkdownV2 with Telegram's own parser, as Telegram does."""
    if params.get("parse_mode") != "MarkdownV2":
        return
    from tests.core.markdown.mdb import tdlib  # only where it is needed: it is large
    from tests.core.markdown.mdb.model import Rejected

    try:
        found = tdlib.parse_markdownv2(params["text"])
    except Rejected as error:
        raise Refusal(400, f"Bad Request: can't parse entities: {error}") from error
    params["markup"] = params["text"]
    params["text"] = found.text
    params["spans"] = [(span.type, found.text[span.start : span.end]) for span in found.spans]


def check_text(params: Params) -> None:
    """Check a text as Telegram does."""
    text = params.get("text", "")
    if not text.strip():
        raise Refusal(400, "Bad Request: message text is empty")
    if len(text) > TEXT_LIMIT:
        raise Refusal(400, "Bad Request: message is too long")
    units = len(text.encode("utf-16-le")) // 2
    for entity in params.get("entities") or []:
        if entity["offset"] + entity["length"] > units:
            raise Refusal(400, "Bad Request: can't parse entities")
    for row in (params.get("reply_markup") or {}).get("inline_keyboard", []):
        for button in row:
            if not 1 <= len(button["callback_data"].encode()) <= 64:
                raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")


def sequence_of(token: str, chat: int) -> tuple[str, int]:
    """Return the key of the sequence of ids: one for each bot, or for each supergroup."""
    return ("", chat) if str(chat).startswith("-100") else (token, 0)


def sent(message_id: int, chat: int, *, thread: int = 0) -> Params:
    """Return a minimal Message object."""
    topic: Params = {"message_thread_id": thread, "is_topic_message": True} if thread else {}
    return {
        "message_id": message_id,
        "date": 1_700_000_000,
        "chat": {"id": chat, "type": "private" if chat > 0 else "supergroup"},
        **topic,
    }


def answer(status: int, description: str, parameters: Params | None = None) -> web.Response:
    """Return an error as the Bot API sends it."""
    body: Params = {"ok": False, "error_code": status, "description": description}
    if parameters:
        body["parameters"] = parameters
    return web.json_response(body, status=status)


async def read_params(request: web.Request) -> Params:
    """Return the parameters of a call: JSON, a form, or multipart with files."""
    if request.content_type == "application/json":
        return dict(await request.json())
    found: Params = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            found[f"{name}_file"] = (value.file.read(), value.filename)
        else:
            found[name] = loaded(str(value)) if name != "text" else value
    attached = {name: value for name, value in found.items() if name.endswith("_file")}
    for kind in ("photo", "document", "audio"):
        given = found.get(kind)
        if isinstance(given, str) and given.startswith("attach://"):
            found[f"{kind}_file"] = attached.get(f"{given.removeprefix('attach://')}_file")
    return found


def loaded(value: str) -> Any:
    """Return a value of a form: JSON where it is."""
    try:
        return json.loads(value)
    except ValueError:
        return value
