"""The Bot API with python-telegram-bot, over the connections of :mod:`plain`."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import aiohttp
from telegram import Bot
from telegram.error import TelegramError
from telegram.request import BaseRequest, RequestData

from channels_app.base import Account, ChannelError
from channels_app.telegram import plain
from core.lib import leases

T = TypeVar("T")


class CarriedError(TelegramError):
    """Our error on its way through python-telegram-bot, which lets only its own kind pass."""

    def __init__(self, error: ChannelError | leases.LeaseOverError) -> None:
        """Keep it."""
        super().__init__(str(error))
        self.error = error


class AiohttpRequest(BaseRequest):
    """python-telegram-bot's transport, on aiohttp: a tenth of the CPU of httpx, no URL logged."""

    def __init__(self, token: str) -> None:
        """``token``: what must not appear in an error."""
        self._token = token

    @property
    def read_timeout(self) -> float:
        """Seconds."""
        return plain.READ_SECONDS

    async def initialize(self) -> None:
        """Nothing to do: connections are opened when they are needed."""

    async def shutdown(self) -> None:
        """Nothing to do: the connections belong to :mod:`plain`."""

    async def do_request(  # type: ignore[override]
        self, url: str, method: str, request_data: RequestData | None = None, **_: object
    ) -> tuple[int, bytes]:
        """See ``BaseRequest``. Raises CarriedError."""
        try:
            leases.check()
            async with plain.request(method, url, data=body_of(request_data)) as answer:
                status, payload = answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise CarriedError(plain.not_answered(error)) from None
        except leases.LeaseOverError as error:
            raise CarriedError(error) from None
        if status != 200:
            raise CarriedError(plain.refusal(status, payload, token=self._token))
        return status, payload


def body_of(data: RequestData | None) -> aiohttp.FormData | dict[str, str] | None:
    """A form; multipart when it carries files."""
    if data is None:
        return None
    if not data.contains_files:
        return data.json_parameters
    form = aiohttp.FormData(quote_fields=False)  # else people see report%20May.pdf
    for name, value in data.json_parameters.items():
        form.add_field(name, value)
    for name, (filename, content, content_type) in (data.multipart_data or {}).items():
        form.add_field(name, content, filename=filename, content_type=content_type)
    return form


_bots: dict[tuple[asyncio.AbstractEventLoop, str, str], Bot] = {}


def bot_of(account: Account) -> Bot:
    """The bot of an account in the running event loop. Raises ChannelError without a token."""
    token = account.secrets.get("token", "")
    if not token:
        raise plain.no_token()
    base = plain.base_of(account)
    key = (asyncio.get_running_loop(), base, token)
    if key not in _bots:
        for old in [each for each in _bots if each[0].is_closed()]:
            del _bots[old]
        request = AiohttpRequest(token)
        _bots[key] = Bot(
            token,
            base_url=f"{base}/bot",
            base_file_url=f"{base}/file/bot",
            request=request,
            get_updates_request=request,
        )
    return _bots[key]


async def calling(call: Awaitable[T]) -> T:
    """Await a call of the Bot API. Raises ChannelError, LeaseOverError."""
    try:
        return await call
    except CarriedError as error:
        raise error.error from None
    except TelegramError as error:
        raise ChannelError(f"python-telegram-bot: {type(error).__name__}", unsure=True) from None
