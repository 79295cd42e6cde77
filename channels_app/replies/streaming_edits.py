"""Show an answer while it grows, on a platform without streams.

Where messages can be edited: the first is sent at 40 characters (or when a progress line comes),
then edited within the platform's rate limit. Its row is in the outbox like any block: when a worker
dies, the next one finds the message id and edits the same message; the final text is the outbox's
last edit. Where they cannot be edited: blocks are sent as soon as they are complete.

Where the platform shows drafts, the last message of a growing text is one: it has no row in the
outbox, and the final text is sent in its place (docs/decisions/216-drafts-in-private-chats.md).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from functools import partial

from django.conf import settings

from channels_app import registry
from channels_app.base import (
    Block,
    Capability,
    Channel,
    ChannelError,
    Edits,
    RendersGrowing,
    RendersRich,
    ShowsDrafts,
    Target,
)
from channels_app.delivery.rate_limit import Kind, pacer
from channels_app.delivery.sending import account_of, target_of, without_secrets
from channels_app.rendering.answer import answer_of
from channels_app.rendering.links import Links
from channels_app.rendering.text import render
from channels_app.rendering.translations import wording
from channels_app.replies import outbound
from core.database.transactions import atomic_write, in_thread
from core.lib import leases
from core.lib.leases import Lease, LeaseOverError
from core.markdown import live_view
from core.messages import Message, Transcript
from core.models import Delivery, Run

logger = logging.getLogger(__name__)

FIRST_CHARACTERS = 40
LONG_CHARACTERS = 8_000
CALL_SECONDS = 15.0
# A draft is shown again before the platform lets it go, after 30 s.
DRAFT_SECONDS = 20.0
DRAFT_NUMBERS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Draft:
    """The text so far (Markdown), and the line of progress below it."""

    text: str = ""
    progress: str = ""


def silent(message: Message) -> str:
    """Return no line of progress."""
    del message
    return ""


@dataclass(slots=True)
class Live:
    """Shows one run. ``now`` returns the current draft; :meth:`changed` signals a longer one.

    ``progress_of`` is the line that a message is shown as while nothing follows it. ``rows``: the
    messages that were sent, by their place in the answer.

        waits for news ─► shows the draft ─► pauses for the channel's edit interval ─┐
            ▲        (a draft alone is shown again after DRAFT_SECONDS)              │
            └────────────────────────────────────────────────────────────────────────┘
    """

    run: Run
    channel: Channel
    lease: Lease
    now: Callable[[], Draft]
    progress_of: Callable[[Message], str] = silent
    progress: str = ""
    rows: dict[int, Delivery] = field(default_factory=dict)
    _draft: tuple[Block, float] | None = None  # the shown block, and since when
    _is_ordinary: bool = False  # the rich form was refused
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Note that there is more to show."""
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        self._news.set()

    def heard(self, message: Message) -> None:
        """Note a message of the run: progress replaces the last progress, a text removes it."""
        line = self.progress_of(message)
        if line or message.type == "text":
            self.progress = line
        self.changed()

    async def finish(self) -> None:
        """Stop after the edits that are in flight, so that the final text is the last one."""
        self._over.set()
        self._news.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def abandon(self) -> None:
        """Stop immediately: another worker has claimed the run."""
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        if self.run.attempt > 1:  # an earlier one may have sent messages
            self.rows = await in_thread(rows_of, self.run)
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), DRAFT_SECONDS if self._draft else None)
            self._news.clear()
            if self._over.is_set():
                return
            try:
                await self._show()
            except ChannelError as error:
                logger.info("a live edit failed: %s", error)
                if error.trouble == "form":
                    self._is_ordinary, self._draft = True, None
                    self._news.set()
            except LeaseOverError:
                logger.info("an edit was not made: another worker may have the run")
            except Exception:
                logger.exception("an answer could not be shown while it grows")
                return
            await self._is_over_within(self._interval())

    async def _is_over_within(self, seconds: float) -> bool:
        """Wait; return at once, and True, when the run ends."""
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._over.wait(), seconds)
        return False

    def _interval(self) -> float:
        pace = self.channel.pace
        group = registry.is_group(self.channel, self.run.route["chat"])
        return pace.group_edit_seconds if group else pace.edit_seconds

    async def _show(self) -> None:
        draft = replace(self.now(), progress=self.progress)
        drafts = self._drafts()
        rendered = partial(self._blocks, draft, FIRST_CHARACTERS if drafts is None else 1)
        # Rendering takes up to 1 s of CPU for 100 KB: every other turn of this loop would wait.
        is_long = len(draft.text) > LONG_CHARACTERS
        blocks = await asyncio.to_thread(rendered) if is_long else rendered()
        for index, block in enumerate(blocks):
            row = self.rows.get(index)
            is_last = index == len(blocks) - 1
            if row is None and is_last and drafts is not None:
                is_short = not draft.progress and len(draft.text) < FIRST_CHARACTERS
                if await self._show_draft(drafts, block) or is_short:
                    return
            if row is None:
                row = await in_thread(begin_block, self.run, index, block)
                if row is None:
                    return
                self.rows[index] = row
                if row.state == Delivery.State.PENDING:
                    await outbound.deliver(row.id)
            elif row.payload != block:
                await self._edit(row, block)

    def _blocks(self, draft: Draft, least: int) -> list[Block]:
        """Return the messages as they should look now; none of a text that has fewer than ``least``
        characters and was not shown yet.
        """
        if Capability.EDIT not in self.channel.capabilities:
            return self.channel.outbound.render(draft.text)[:-1] if draft.text else []
        if draft.progress:
            text = live_view(draft.text)
            return self._growing(f"{text}\n\n{draft.progress}" if text else draft.progress)
        if len(draft.text) >= least or (draft.text and self.rows):
            return self._growing(draft.text)
        return []

    def _growing(self, text: str) -> list[Block]:
        """Return the messages of an unfinished text; several that are shown stay ordinary."""
        outbound = self.channel.outbound
        may_be_rich = not self._is_ordinary and len(self.rows) < 2
        account = without_secrets(self.run.session.account)
        if may_be_rich and isinstance(outbound, RendersRich) and outbound.takes_rich(account):
            return outbound.render_rich(text, growing=True)
        if isinstance(outbound, RendersGrowing):
            return outbound.render_growing(text)
        return outbound.render(live_view(text))

    def _drafts(self) -> ShowsDrafts | None:
        """Return the outbound side if it shows the last message as a draft."""
        outbound = self.channel.outbound
        if not isinstance(outbound, ShowsDrafts):
            return None
        account = without_secrets(self.run.session.account)
        return outbound if outbound.takes_drafts(account, self.run.route["chat"]) else None

    async def _show_draft(self, outbound: ShowsDrafts, block: Block) -> bool:
        """Show the last message as a draft; return False where it has to be sent."""
        now = asyncio.get_running_loop().time()
        shown, since = self._draft or (None, 0.0)
        if shown == block and now - since < DRAFT_SECONDS:
            return True
        account, route = account_of(self.run.session.account), self.run.route
        if not await self._has_turn(route["chat"], kind="draft"):
            return True
        target = Target(chat=route["chat"], thread=route["thread"])
        number = self.run.id % DRAFT_NUMBERS or DRAFT_NUMBERS
        self._draft = block, now
        is_taken = True  # or it took too long
        async with self._calling(route["chat"]):
            is_taken = await outbound.show_draft(
                account=account, target=target, number=number, block=block
            )
        if not is_taken:
            self._draft = None
        return is_taken

    async def _has_turn(self, chat: str, *, kind: Kind = "message") -> bool:
        """Wait for the rate limit; return False if that takes too long, or the run ends first."""
        seconds = pacer().reserve(
            account_id=self.run.session.account_id,
            chat=chat,
            pace=self.channel.pace,
            is_group=registry.is_group(self.channel, chat),
            most=self._interval(),
            kind=kind,
        )
        if seconds > self._interval():
            self._news.set()
            return False
        return not await self._is_over_within(seconds)  # the final text comes anyway

    @contextlib.asynccontextmanager
    async def _calling(self, chat: str) -> AsyncIterator[None]:
        """Bound the block by the lease and CALL_SECONDS; note a rate limit of the platform."""
        try:
            # A suspended process must not change the messages of the worker that took over.
            with leases.under(self.lease):
                async with asyncio.timeout(min(CALL_SECONDS, self.lease.left)):
                    leases.check()
                    yield
        except ChannelError as error:
            if error.retry_after is not None:
                pacer().hold(
                    account_id=self.run.session.account_id,
                    chat=chat,
                    seconds=error.retry_after,
                )
            raise
        except TimeoutError:
            logger.info("a live edit took too long")

    async def _edit(self, row: Delivery, block: Block) -> None:
        """Edit a message that was sent; skip one whose sending has not finished."""
        outbound = self.channel.outbound
        if not isinstance(outbound, Edits):
            return
        if not row.external_message_id:
            await in_thread(row.refresh_from_db)
        known, chat = row.external_message_id, row.target["chat"]
        if not known:
            self._news.set()
        elif await self._has_turn(chat):
            async with self._calling(chat):
                await outbound.edit_text(
                    account=account_of(self.run.session.account),
                    target=target_of(row),
                    message_id=known,
                    block=block,
                )
                row.payload = block


def rows_of(run: Run) -> dict[int, Delivery]:
    """Return the messages of a run that are in the outbox, by their place in the answer."""
    return {row.block_index: row for row in Delivery.objects.filter(run_id=run.id)}


def begin_block(run: Run, index: int, block: Block) -> Delivery | None:
    """Insert the outbox row of a block that is still growing; return None when the run is lost."""
    with atomic_write():
        ours = Run.objects.select_for_update().filter(
            id=run.id, attempt=run.attempt, state=Run.State.RUNNING
        )
        if not ours.exists():
            return None
        return outbound.put_block(run=run, index=index, payload=block)


def live_of(run: Run, transcript: Transcript, *, lease: Lease) -> Live | None:
    """Return the object that shows a run while it grows; None where clients follow the log
    themselves.

    It shows the beginning of the answer, as it will be: sources come last. Messages that cannot be
    edited would be sent twice otherwise.
    """
    channel = registry.get(run.session.account.channel)
    if channel is None or Capability.WHOLE in channel.capabilities:
        return None
    links = Links(base_url=settings.GATEWAY_URL, run_id=run.public_id)
    words = wording(run.user.language)

    def now() -> Draft:
        said = [each for each in transcript.messages() if each.type != "retrieval"]
        return Draft(answer_of(said, {}, links=links, words=words).text)

    def progress_of(message: Message) -> str:
        return render(message, links=links, words=words).progress if run.user.show_progress else ""

    return Live(run=run, channel=channel, lease=lease, now=now, progress_of=progress_of)
