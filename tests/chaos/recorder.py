"""A channel whose platform is an HTTP server of the test; it drops a key that it has seen."""

import os

import aiohttp

from channels_app.base import Account, ChannelError, Target


class Recorder:
    """See ``channels_app.base.Channel``."""

    id = "recorder"
    name = "Recorder"
    text_limit = 4000
    idempotent = True

    async def send_text(self, *, account: Account, target: Target, text: str, key: str) -> str:
        """POST the text to the platform of the test."""
        body = {"chat": target.chat, "text": text, "key": key, "reply_to": target.reply_to}
        timeout = aiohttp.ClientTimeout(total=10)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(os.environ["CHAOS_PLATFORM"], json=body) as answer,
            ):
                answer.raise_for_status()
                return await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ChannelError(str(error), unsure=True) from error


CHANNEL = Recorder()
