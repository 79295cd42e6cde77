"""Usage of a run or a long task: each call of a model, noted and stored (decision 191).

    RunMeter.reserve ─► call ─► RunMeter.settled (in memory) ─► settle, in the end's transaction

Calls with a reservation are open rows meanwhile; those of a process that died: ``left_calls``.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import orjson
from django.db import DatabaseError, transaction
from django.utils import timezone

from core.conversations import budget_words, budgets, reservations
from core.conversations.budgets import Change, Closing, Entry, Limit
from core.conversations.reservations import Decision, Reservation, ReservationRequest
from core.database.batching import in_shared_call
from core.database.transactions import atomic_write
from core.database.writes import Insert, write_all
from core.lib.tokens import estimate
from core.models import ModelCall, Run
from core.providers import catalogue, prices
from core.providers.base import LIMITS, ModelRequest, ProviderError, Usage
from core.providers.catalogue import Catalogue, ModelInfo
from core.providers.failures import KINDS

logger = logging.getLogger(__name__)

# A reservation is on the safe side: so many bytes are a token at least.
BYTES_A_TOKEN = 3
MESSAGE_TOKENS = 8  # of the chat's form, for each message and tool
IMAGE_TOKENS = 1600
# A client may allow more tokens, up to 2**63 - 1, than a price can be searched in.
LONGEST_ANSWER = 2**31 - 1
# The day of an older call is that of yesterday: days before are summed up.
OLDEST = timedelta(days=1)
WAIT_SECONDS = 20.0
PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.05, 1.0
# The server was not reached, or refused the call: nothing was read.
READ = {"timeout", "silence", "cut", "bad_stream", "empty", "length", "content"}
UNREAD = frozenset(KINDS) - READ


@dataclass(slots=True)
class FinishedCall:
    """The end of a call in memory. ``call_id``: its open row, which holds ``entries``; 0: none.

    ``cost``: None until it is asked for. ``is_stored``: its row is settled, and the transaction
    committed.
    """

    model: ModelInfo
    columns: dict[str, Any]
    used: Usage
    call_id: int
    entries: tuple[Entry, ...]
    at: datetime
    cost: int | None = None
    is_stored: bool = False

    def price(self) -> int:
        """Return what the call cost. In a thread: the first look at the list of prices is long."""
        if self.cost is None:
            self.cost = prices.cost(self.model, self.used)
        return self.cost

    def closing(self) -> Closing:
        """Return what settles the open row."""
        changes = budgets.changes_of(self.entries, self.used, self.price())
        return Closing(self.call_id, self.stored_columns(), changes)

    def stored_columns(self) -> dict[str, Any]:
        """Return the columns of the settled row. May block on the database."""
        day = max(budgets.day_of(self.at), budgets.day_of(timezone.now() - OLDEST))
        return {**self.columns, "cost": self.price(), "day": day}


@dataclass(slots=True)
class Ledger:
    """The calls of one run or task; ``common``: the columns that all have."""

    common: dict[str, Any]
    limits: tuple[Limit, ...]
    calls: list[FinishedCall] = field(default_factory=list)

    @property
    def unstored(self) -> list[FinishedCall]:
        """Return the calls that are not stored yet."""
        return [each for each in self.calls if not each.is_stored]


def ledger_of(common: dict[str, Any], known: Catalogue) -> Ledger:
    """Return an empty ledger, with the budgets that limit its calls."""
    payers = {name: common[name] for name in ("user_id", "key_id", "account_id", "assistant_id")}
    return Ledger(common, budgets.applying(known.budgets, **payers))


class RunMeter:
    """Counts the calls of a ledger, and reserves them in budgets: a ``core.providers.chain.Meter``.

    ``is_whole``: answers cannot be made shorter.
    """

    def __init__(self, ledger: Ledger, purpose: str, *, is_whole: bool = False) -> None:
        self.ledger = ledger
        self._purpose = purpose
        self._open: Reservation | None = None
        self._deadline: float | None = None
        self._began = time.monotonic()
        self._is_whole = is_whole

    @classmethod
    def of_run(
        cls,
        *,
        run: Run,
        purpose: str = ModelCall.Purpose.TURN,
        attempt: int | None = None,
        job_id: int = 0,
        known: Catalogue | None = None,
    ) -> "RunMeter":
        """Return a meter of a run, or of a long task of it (``job_id``, ``attempt`` of the task),
        without calls. ``known``: the catalogue at the beginning; without it the database is asked.
        """
        known = known or catalogue.current()
        common = {
            "run_id": run.id,
            "user_id": run.user_id,
            "account_id": run.session.account_id,
            "key_id": run.via_key,
            "assistant_id": run.assistant_id or known.default,
            "attempt": run.attempt if attempt is None else attempt,
            "job_id": job_id,
        }
        return cls(ledger_of(common, known), purpose)

    @classmethod
    def without_run(
        cls, *, user_id: int, key_id: int, account_id: int, assistant_id: int, known: Catalogue
    ) -> "RunMeter":
        """Return a meter for a call that belongs to no run: a person's key calls a model through
        the gateway, whose answer cannot be made shorter. :func:`store` stores it.
        """
        common = {
            "run_id": None,
            "user_id": user_id,
            "key_id": key_id,
            "account_id": account_id,
            "assistant_id": assistant_id,
        }
        return cls(ledger_of(common, known), ModelCall.Purpose.TURN, is_whole=True)

    def of(self, purpose: str) -> "RunMeter":
        """Return a meter of the same ledger for calls with another purpose; one settles both."""
        return RunMeter(self.ledger, purpose, is_whole=self._is_whole)

    def apart(self) -> "RunMeter":
        """Return a meter of the same run for a call beside others, which is settled by itself."""
        ledger = Ledger(common=self.ledger.common, limits=self.ledger.limits)
        return RunMeter(ledger, self._purpose, is_whole=self._is_whole)

    async def reserve(self, model: ModelInfo, request: ModelRequest) -> int | None:
        """See ``Meter``. Without a budget this is a look at an empty tuple."""
        self._began = time.monotonic()
        if not self.ledger.limits:
            return None
        prompt = most_prompt_tokens(request)
        if self._deadline is None:
            self._deadline = time.monotonic() + WAIT_SECONDS
        pause = PAUSE_SECONDS
        while True:
            left = self._deadline - time.monotonic()
            found = await self._ask(model, request, prompt, is_last=left <= 0)
            if isinstance(found, Reservation):
                self._open, self._deadline, self._began = found, None, time.monotonic()
                return found.output_tokens
            if left <= 0 or not found.is_soon:
                raise budget_words.refusal(found)
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, MOST_PAUSE_SECONDS)

    async def _ask(
        self, model: ModelInfo, request: ModelRequest, prompt: int, *, is_last: bool
    ) -> Decision:
        """Ask the database; if this is cancelled, note a reservation as a call not made."""
        pending = [each for each in self.ledger.unstored if each.call_id]
        columns = {**self._named(model), **self.ledger.common}
        call = ModelCall(**columns, prompt_tokens=prompt_tokens(request))

        def wanted() -> ReservationRequest:
            prices.is_known(model)  # looked up before the transaction
            return ReservationRequest(
                call=call,
                model=model,
                limits=self.ledger.limits,
                prompt_tokens=prompt,
                output_tokens=wanted_tokens(model, request),
                before=[each.closing() for each in pending],
                is_last=is_last,
                is_whole=self._is_whole,
            )

        asked: Coroutine[Any, Any, Decision] = in_shared_call(reserve_batch, wanted)
        task = asyncio.ensure_future(asked)
        try:
            found = await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                result = task.result()
                if isinstance(result, Reservation):
                    self._open = result
                    self._note(model, Usage(0, 0), failure="stopped", estimated=False)
            raise
        except DatabaseError as error:
            logger.warning("a budget could not be reserved: %r", error)
            raise ProviderError("Something went wrong in the gateway.", code="internal") from error
        mark_stored(pending)
        return found

    @property
    def tokens(self) -> dict[str, int]:
        """Return the tokens of all calls of the ledger so far, estimated where none were reported;
        cached ones and those of reasoning only where there are some.
        """
        sums: Counter[str] = Counter()
        for each in self.ledger.calls:
            sums.update(asdict(each.used))
        prompt, answer = sums["prompt_tokens"], sums["completion_tokens"]
        both = {"prompt_tokens": prompt, "completion_tokens": answer}
        return {**both, "total_tokens": prompt + answer, **+sums}

    def shortage(self) -> ProviderError | None:
        found = self._open.shortage if self._open else None
        return budget_words.refusal(found) if found else None

    def settled(
        self,
        model: ModelInfo,
        request: ModelRequest,
        *,
        usage: Usage | None,
        output_tokens: int,
        failure: str,
    ) -> None:
        reported = bool(usage and (usage.prompt_tokens or usage.completion_tokens))
        if usage is None or not reported:
            is_read = output_tokens or failure not in UNREAD
            usage = Usage(prompt_tokens(request) if is_read else 0, output_tokens)
        elif not usage.prompt_tokens:  # every call has a prompt
            usage, reported = replace(usage, prompt_tokens=prompt_tokens(request)), False
        self._note(model, usage, failure=failure, estimated=not reported)

    def _note(self, model: ModelInfo, used: Usage, *, failure: str, estimated: bool) -> None:
        granted, self._open = self._open, None
        columns = {
            **asdict(used),  # columns have the names of its fields
            "estimated": estimated,
            "failure": failure[:40],
            "milliseconds": round((time.monotonic() - self._began) * 1000),
        }
        if granted is None:
            columns |= self._named(model)
        self.ledger.calls.append(
            FinishedCall(
                model=model,
                columns=columns,
                used=used,
                call_id=granted.call_id if granted else 0,
                entries=granted.entries if granted else (),
                at=timezone.now(),
            )
        )

    def _named(self, model: ModelInfo) -> dict[str, Any]:
        """Return the columns that say what a model was called for."""
        return {
            "purpose": self._purpose,
            "model_id": model.id,
            "model_name": f"{model.provider.name}: {model.name}"[:300],
        }


def reserve_batch(
    requests: Sequence[Callable[[], ReservationRequest]],
) -> Sequence[Decision | Exception]:
    """Reserve simultaneous requests of this process in one transaction."""
    return reservations.reserve_all([each() for each in requests])


def wanted_tokens(model: ModelInfo, request: ModelRequest) -> int:
    """Return the longest answer that the request allows, else the model."""
    asked = [request.options[name] for name in LIMITS & request.options.keys()]
    wanted = min((each for each in asked if each), default=model.max_output_tokens)
    return max(1, min(int(wanted), LONGEST_ANSWER))


def most_prompt_tokens(request: ModelRequest) -> int:
    """Return the tokens that a request has at most, roughly: on the safe side."""
    texts, images, parts = contents(request)
    return -(-sum(len(each.encode()) for each in texts) // BYTES_A_TOKEN) + (
        images * IMAGE_TOKENS * 2 + parts * MESSAGE_TOKENS
    )


def prompt_tokens(request: ModelRequest) -> int:
    """Return the tokens of a request, estimated."""
    texts, images, _ = contents(request)
    return sum(map(estimate, texts)) + images * IMAGE_TOKENS


def contents(request: ModelRequest) -> tuple[list[str], int, int]:
    """Return the texts of a request, the number of its images, and that of its messages and
    tools. An image is a URL, or megabytes of one: it is not measured.
    """
    texts: list[str] = []
    images = 0
    for message in request.messages:
        content = message.get("content")
        if isinstance(content, list):
            texts += [str(part.get("text") or "") for part in content]
            images += sum("text" not in part for part in content)
        else:
            texts.append(str(content or ""))
        if calls := message.get("tool_calls"):
            texts.append(orjson.dumps(calls).decode())
    texts += [orjson.dumps(each).decode() for each in request.tools]
    return texts, images, len(request.messages) + len(request.tools)


def price(meter: RunMeter) -> None:
    """Look up the prices of a run's calls, before the transaction that ends it. In a thread."""
    for each in meter.ledger.unstored:
        each.price()


def settle(meter: RunMeter) -> list[Insert]:
    """Settle the open calls of a run or task that ends, and return the INSERTs of its others.

    Inside the transaction of the end, which executes them. It may be run again after a rollback.
    """
    ledger, left = meter.ledger, meter.ledger.unstored
    inserts: list[Insert] = []
    changes: list[Change] = []
    for each in left:
        if each.call_id:
            changes += budgets.close(each.closing())
        else:
            inserts.append(Insert(ModelCall(**ledger.common, **each.stored_columns())))
    if changes:
        budgets.change(changes)
    if left:
        transaction.on_commit(partial(mark_stored, left))
    return inserts


def mark_stored(calls: Sequence[FinishedCall]) -> None:
    for each in calls:
        each.is_stored = True


def store(meter: RunMeter) -> None:
    """Store the calls that are not stored yet: of a long task, or of a run that was lost."""
    if not meter.ledger.unstored:
        return
    price(meter)
    with atomic_write():
        inserts = settle(meter)
        if inserts:
            write_all(*inserts)
