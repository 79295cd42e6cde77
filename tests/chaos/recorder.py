"""A channel whose platform is an HTTP server of the test; it drops a key that it has seen."""

import os
from dataclasses import dataclass, field

import aiohttp

from channels_app.base import Account, Block, Capability, ChannelError, Pace, Target
from channels_app.memory.channel import MemoryConfig, MemoryGateway


class RecorderOutbound:
    """See ``channels_app.base.Outbound``."""

    def render(self, text: str) -> list[Block]:
        """Return the text unchanged, as one message."""
        return [{"text": text}]

    async def send_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """POST the text to the platform of the test."""
        body = {"chat": target.chat, "text": block["text"], "key": key}
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

    async def reply_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Send like ``send_text``: tests do not distinguish replies."""
        return await self.send_text(account=account, target=target, block=block, key=key)


@dataclass
class Recorder:
    """See ``channels_app.base.Channel``."""

    id: str = "recorder"
    name: str = "Recorder"
    description: str = "For tests."
    idempotent: bool = True
    pace: Pace = Pace()  # noqa: RUF009 - frozen
    capabilities: frozenset[Capability] = frozenset()
    config: MemoryConfig = field(default_factory=MemoryConfig)
    gateway: MemoryGateway = field(default_factory=MemoryGateway)
    outbound: RecorderOutbound = field(default_factory=RecorderOutbound)

    def is_group(self, chat: str) -> bool:
        """Return False."""
        del chat
        return False


CHANNEL = Recorder()
