"""The state machine of calls and budgets, in random orders: nothing is lost or counted twice.

``BUDGET_ORDERS``: how many.
"""

import os
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from core.conversations import budgets, left_calls, reservations
from core.conversations.budgets import Closing, Limit
from core.conversations.reservations import Reservation, ReservationRequest
from core.database.transactions import atomic_write
from core.models import Budget, BudgetPeriod, ModelCall
from core.providers import catalogue
from core.providers.base import Usage
from tests.core.conversations.metered import PRICED, budget

pytestmark = [pytest.mark.django_db, pytest.mark.sampled]
TOKENS, DOLLARS = 3000, 4_000_000_000
COST = 1_000_000  # of a token of a prompt, in billionths of a dollar; one of an answer costs twice


@dataclass
class Model:
    """The expected rows, counted in the simplest way.

    ``open``: call -> (prompt, most tokens of its answer, day); ``used``: of settled calls.
    """

    open: dict[int, tuple[int, int, date]] = field(default_factory=dict)
    used: dict[tuple[str, date], int] = field(default_factory=dict)

    def settle(self, call: int, prompt: int, answer: int) -> None:
        """Count the end of an open call; nothing for one that has ended."""
        known = self.open.pop(call, None)
        if known is None:
            return
        day = known[2]
        for name, number in (
            ("tokens", prompt + answer),
            ("money", (prompt + 2 * answer) * COST),
        ):
            self.used[name, day] = self.used.get((name, day), 0) + number

    def reserved(self, name: str, day: date) -> int:
        """Return the amount that open calls hold."""
        return sum(
            prompt + most if name == "tokens" else (prompt + 2 * most) * COST
            for prompt, most, of in self.open.values()
            if of == day
        )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(1, 800), st.integers(1, 1500)),
        st.tuples(st.just("settle"), st.integers(0, 20), st.integers(0, 100)),
        st.tuples(st.just("settle again"), st.integers(0, 20), st.integers(0, 100)),
        st.tuples(st.just("kill"), st.integers(0, 20), st.integers(0, 2000)),
        st.tuples(st.just("roll back"), st.integers(0, 20), st.integers(0, 100)),
        st.tuples(st.just("next day"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


class Play:
    """One order of events, on rows and on the model of them."""

    def __init__(self) -> None:
        """Begin with a budget of tokens and one of money."""
        ModelCall.objects.all().delete()
        Budget.objects.all().delete()
        rows = [budget(TOKENS), budget(DOLLARS, unit="money")]
        self.limits = [Limit(catalogue.budget_info(each), 0) for each in rows]
        self.day = date(2026, 3, 1)
        self.model = Model()
        self.made: list[Reservation] = []
        self.ended: list[int] = []

    def reserve(self, prompt: int, answer: int) -> None:
        """Reserve a call; it is granted exactly where it fits."""
        wish = ReservationRequest(
            call=ModelCall(model_id=1, day=self.day, prompt_tokens=prompt),
            model=PRICED,
            limits=self.limits,
            prompt_tokens=prompt,
            output_tokens=answer,
            is_last=True,
        )
        (found,) = reservations.reserve_all([wish])
        room = {
            name: limit
            - self.model.used.get((name, self.day), 0)
            - self.model.reserved(name, self.day)
            for name, limit in (("tokens", TOKENS), ("money", DOLLARS))
        }
        most = min(answer, room["tokens"] - prompt, (room["money"] // COST - prompt) // 2)
        if most < min(answer, reservations.ENOUGH_TOKENS):
            assert not isinstance(found, Reservation)
            return
        assert isinstance(found, Reservation)
        assert found.output_tokens == most
        self.model.open[found.call_id] = prompt, most, self.day
        self.made.append(found)

    def pick(self, number: int) -> Reservation | None:
        """Return one of the calls so far."""
        return self.made[number % len(self.made)] if self.made else None

    def settle(self, number: int, percent: int) -> None:
        """Settle a call, which may have ended, with a part of what it reserved."""
        if (call := self.pick(number)) is not None:
            known = self.model.open.get(call.call_id, (1, 1, self.day))
            answer = known[1] * percent // 100
            self.close(call, known[0], answer)
            self.model.settle(call.call_id, known[0], answer)

    def close(self, call: Reservation, prompt: int, answer: int) -> None:
        used, cost = Usage(prompt, answer), (prompt + 2 * answer) * COST
        columns = {"prompt_tokens": prompt, "completion_tokens": answer, "cost": cost}
        closing = Closing(call.call_id, columns, budgets.changes_of(call.entries, used, cost))
        with atomic_write():
            budgets.change(budgets.close(closing))

    def kill(self, number: int, shown: int) -> None:
        """Let somebody else settle a call."""
        if (call := self.pick(number)) is not None:
            row = ModelCall.objects.get(pk=call.call_id)
            known = self.model.open.get(call.call_id, (0, 0, self.day))
            with atomic_write():
                left_calls.shut([row], shown)
            self.model.settle(call.call_id, known[0], min(shown, known[1]))

    def roll_back(self, number: int, percent: int) -> None:
        """Die in the middle of settling: nothing has happened."""
        if (call := self.pick(number)) is None:
            return
        known = self.model.open.get(call.call_id, (1, 1, self.day))
        with transaction.atomic():
            self.close(call, known[0], known[1] * percent // 100)
            transaction.set_rollback(True)

    def step(self, name: str, first: int, second: int) -> None:
        """Do one step."""
        match name:
            case "reserve":
                self.reserve(first, second)
            case "settle" | "settle again":
                self.settle(first, second)
            case "kill":
                self.kill(first, second)
            case "roll back":
                self.roll_back(first, second)
            case "next day":
                self.day = date(2026, 3, self.day.day % 28 + 1)

    def check(self) -> None:
        """Compare the rows with the model."""
        for row in BudgetPeriod.objects.select_related("budget"):
            name = row.budget.unit
            assert row.spent == self.model.used.get((name, row.start), 0)
            assert row.reserved == self.model.reserved(name, row.start)
            assert row.spent + row.reserved <= row.budget.limit
        opened = ModelCall.objects.filter(state="open").values_list("pk", flat=True)
        assert {*opened} == {*self.model.open}


class Known:
    """A catalogue of one model."""

    models: dict[int, Any] = {1: PRICED}


@settings(max_examples=int(os.environ.get("BUDGET_ORDERS", "60")))
@given(order=steps)
def test_no_order_of_events_loses_a_token_or_counts_one_twice(
    order: list[tuple[str, int, int]],
) -> None:
    with transaction.atomic(), pytest.MonkeyPatch.context() as patch:
        play = Play()
        patch.setattr(budgets, "day_of", lambda _: play.day)
        patch.setattr(catalogue, "current", Known)
        for name, first, second in order:
            play.step(name, first, second)
            play.check()
        transaction.set_rollback(True)
