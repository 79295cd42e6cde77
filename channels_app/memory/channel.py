"""The in-memory platform and its plugin. Chats exist in this process only."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from channels_app.base import (
    Account,
    Block,
    Capability,
    ChannelError,
    Field,
    Health,
    OutgoingFile,
    Pace,
    RemoteFile,
    Target,
)
from channels_app.delivery import aggregator
from channels_app.intake import slash_commands
from channels_app.intake.inbound import Receipt, receive_sender
from core.conversations.inbox import Draft
from core.models import ChannelAccount

TEXT_LIMIT = 4000
PACE = Pace(edit_seconds=0.02, group_edit_seconds=0.02)


@dataclass(slots=True)
class Sent:
    id: str
    account: str
    target: Target
    block: Block
    key: str
    file: OutgoingFile | None = None
    edits: int = 0


@dataclass(slots=True)
class Platform:
    """The state of the platform. ``refusals`` are raised, in order, by the next calls."""

    sent: list[Sent] = field(default_factory=list)
    reactions: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    typing: list[Target] = field(default_factory=list)
    answers: list[tuple[str, str]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    refusals: list[ChannelError] = field(default_factory=list)
    topics: list[tuple[str, str]] = field(default_factory=list)
    closed_topics: list[tuple[str, str]] = field(default_factory=list)

    def clear(self) -> None:
        self.sent, self.reactions, self.typing = [], {}, []
        self.answers, self.files, self.refusals = [], {}, []
        self.topics, self.closed_topics = [], []

    def texts(self, chat: str, thread: str = "") -> list[str]:
        place = (chat, thread)
        return [
            str(each.block.get("text", ""))
            for each in self.sent
            if (each.target.chat, each.target.thread) == place
        ]

    def find(self, message_id: str) -> Sent:
        """Return a message. Raises ChannelError when it does not exist."""
        for each in self.sent:
            if each.id == message_id:
                return each
        raise ChannelError("no such message", permanent=True, trouble="gone")

    def call(self) -> None:
        """Count a call and raise the next configured refusal."""
        if self.refusals:
            raise self.refusals.pop(0)


class MemoryConfig:
    """An account needs no settings."""

    fields: Sequence[Field] = ()

    def problems(self, account: Account) -> list[str]:
        return []


class MemoryGateway:
    """Messages come in through :func:`say`."""

    async def prepare(self, account: Account, *, base_url: str) -> str:
        return "in memory"

    async def retire(self, account: Account) -> None: ...

    async def check(self, account: Account) -> Health:
        return Health()

    async def test(self, account: Account) -> str:
        return account.name

    async def close(self) -> None: ...


@dataclass(slots=True)
class MemoryOutbound:
    """Outbound side with every capability."""

    platform: Platform
    max_download_bytes: int = 1024 * 1024

    def render(self, text: str) -> list[Block]:
        """Split Markdown into blocks, unchanged."""
        return [{"text": each} for each in aggregator.split(text, limit=TEXT_LIMIT)]

    async def send_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        return self._add(account, Target(target.chat, target.thread), block, key, None)

    async def reply_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        return self._add(account, target, block, key, None)

    async def edit_text(
        self, *, account: Account, target: Target, message_id: str, block: Block
    ) -> None:
        await asyncio.sleep(0)
        self.platform.call()
        sent = self.platform.find(message_id)
        sent.block, sent.edits = block, sent.edits + 1

    async def delete_message(self, *, account: Account, target: Target, message_id: str) -> None:
        self.platform.call()
        self.platform.sent = [each for each in self.platform.sent if each.id != message_id]

    async def open_topic(self, *, account: Account, chat: str, title: str) -> str:
        """Open a topic, in groups whose name ends in ``-forum``."""
        self.platform.call()
        if not chat.endswith("-forum"):
            return ""
        self.platform.topics.append((chat, title))
        return str(len(self.platform.topics))

    async def close_topic(self, *, account: Account, chat: str, thread: str) -> None:
        self.platform.call()
        self.platform.closed_topics.append((chat, thread))

    async def send_typing(self, *, account: Account, target: Target) -> None:
        self.platform.call()
        self.platform.typing.append(target)

    async def add_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        self.platform.call()
        self.platform.reactions[account.name, target.chat, message_id] = True

    async def remove_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        self.platform.call()
        self.platform.reactions[account.name, target.chat, message_id] = False

    async def send_file(
        self, *, account: Account, target: Target, file: OutgoingFile, key: str
    ) -> str:
        return self._add(account, target, {"text": file.caption}, key, file)

    async def answer_button(self, *, account: Account, press: str, text: str) -> None:
        self.platform.call()
        self.platform.answers.append((press, text))

    async def download_media(self, *, account: Account, file: RemoteFile) -> bytes:
        self.platform.call()
        if file.id not in self.platform.files:
            raise ChannelError("no such file", permanent=True)
        return self.platform.files[file.id]

    def _add(
        self, account: Account, target: Target, block: Block, key: str, file: OutgoingFile | None
    ) -> str:
        self.platform.call()
        message_id = str(len(self.platform.sent) + 1)
        self.platform.sent.append(Sent(message_id, account.name, target, block, key, file))
        return message_id


@dataclass(slots=True)
class MemoryChannel:
    platform: Platform
    outbound: MemoryOutbound
    id: str = "memory"
    name: str = "Memory"
    description: str = "Chats in the memory of one process, for tests and demos."
    idempotent: bool = False
    pace: Pace = PACE
    capabilities: frozenset[Capability] = frozenset(
        set(Capability)
        - {Capability.POLLING, Capability.ONE_MESSAGE, Capability.WHOLE, Capability.FIND}
    )
    config: MemoryConfig = field(default_factory=MemoryConfig)
    gateway: MemoryGateway = field(default_factory=MemoryGateway)

    def is_group(self, chat: str) -> bool:
        """Return whether the chat id starts with ``-``, as on Telegram."""
        return chat.startswith("-")


PLATFORM = Platform()
CHANNEL = MemoryChannel(PLATFORM, MemoryOutbound(PLATFORM))


def say(
    *,
    account: ChannelAccount,
    sender: str,
    chat: str,
    text: str,
    message_id: str,
    now: datetime,
    thread: str = "",
    media: list[dict[str, object]] | None = None,
) -> Receipt:
    """Receive a message from the platform, as from any other channel."""
    draft = Draft(
        account=account,
        sender=sender,
        chat=chat,
        thread=thread,
        update_id=f"{chat}:{message_id}",
        message_id=message_id,
        text=text,
        media=media or [],
    )
    group = chat if CHANNEL.is_group(chat) else ""
    return receive_sender(
        draft=draft, now=now, group=group, debounce=True, command=slash_commands.parse(text)
    )
