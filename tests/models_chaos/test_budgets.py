"""One budget of money under concurrent requests: real processes, compared with the provider."""

import copy
import json
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from gateway_project.processes import listener
from tests.channels_app import client
from tests.channels_app.client import Client, query, when_free
from tests.gateways import Gateway
from tests.models_chaos import rows
from tests.models_chaos.aimock import Aimock, Asked
from tests.models_chaos.conftest import KEY, QUICK
from tests.models_chaos.test_failover import DAY
from tests.models_chaos.turns import BROKEN
from tests.servers import Process, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PACE = {"CHUNK_MS": "20"}
SEED = 20261126
PEOPLE = 4
REQUESTS = 50
# Dollars for a million tokens; in billionths, a token costs a thousand times as much.
PRICES = {"input_price": "100", "output_price": "200", "max_output_tokens": 200}
INPUT, OUTPUT = 100_000, 200_000
COLUMNS = "id, state, prompt_tokens, completion_tokens, cost, estimated, failure, reserved"


@dataclass
class Fleet:
    """Two web servers and two ``runs`` workers of one gateway; ``clients``: each person at each
    server."""

    gateway: Gateway
    provider: Aimock
    budget: int
    clients: list[Client]
    workers: list[Process]

    def calls(self) -> list[tuple[Any, ...]]:
        """Return the rows of calls, with COLUMNS."""
        return query(self.gateway, f"SELECT {COLUMNS} FROM core_modelcall ORDER BY id")

    def period(self) -> tuple[int, int]:
        """Return what is spent and reserved."""
        sql = "SELECT spent, reserved FROM core_budgetperiod WHERE budget_id = {}"
        [row] = query(self.gateway, sql.format(self.budget))
        return int(row[0]), int(row[1])


@pytest.fixture
def fleet(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory, provider: Aimock
) -> Iterator[Callable[..., Fleet]]:
    """``fleet(limit=…)`` starts one with a budget of so many billionths of a dollar for all."""
    stops: list[Callable[[], object]] = []

    def make(*, limit: int) -> Fleet:
        folder = tmp_path_factory.mktemp("fleet")
        (folder / "home").mkdir()
        gateway = Gateway(folder, new_database(), extra=QUICK, roles=("web", "runs"))
        stops.append(gateway.stop)
        row = rows.provider(provider.url, "main", "spare", key=KEY, fields=PRICES)
        budget = {"unit": "money", "period": "month", "limit": limit}
        # Without tools a reservation is little more than an answer uses.
        made = rows.make(gateway, row, chain=["main", "spare"], budgets=[budget], tools=[])
        people = client.people(gateway, number=PEOPLE)[:-1]
        gateway.start()
        other = copy.copy(gateway)
        other.port = listener.free_port()
        second = [beside(gateway, name, GATEWAY_PORT=str(other.port)) for name in gateway.roles]
        stops[:0] = [each.stop for each in second]
        clients = [Client(at, each.token) for each in people for at in (gateway, other)]
        provider.fail()
        workers = [gateway.processes["runs"], second[1]]
        return Fleet(gateway, provider, made["budget-0"], clients, workers)

    yield make
    for stop in stops:
        stop()


def beside(gateway: Gateway, name: str, **more: str) -> Process:
    """Start a second process of a role."""
    process = Process(
        command=gateway.processes[name].command,
        log=gateway.folder / f"second-{name}.log",
        env={**gateway.env, **more},
    )
    process.start(reports_ready=True)
    process.wait_ready(process.said_ready, seconds=60)
    return process


def ask(at: Client, question: str, *, leave: bool = False) -> tuple[int, str]:
    """Send one request to ``/v1``; return the status and the code of its error. ``leave``: the
    client goes away in the middle of the stream."""
    body: dict[str, Any] = {"model": "default", "max_tokens": 100, "stream": leave}
    body["messages"] = [{"role": "user", "content": f"Tell me about {question}"}]
    given = json.dumps(body).encode()
    if leave:
        with at.request("POST", "/v1/chat/completions", given, X_Session_Id=question) as stream:
            stream.read(600)
            return stream.status, "left"
    answer = when_free(
        lambda: at.call("POST", "/v1/chat/completions", given, X_Session_Id=question)
    )
    return answer.status, answer.body["error"]["code"] if answer.status != 200 else ""


def test_50_requests_of_4_people_spend_a_budget_to_the_token_and_not_more(
    fleet: Callable[..., Fleet],
) -> None:
    [price, reservation] = cost_of_one(fleet(limit=10**12))
    # Enough for the reservations of two at once, and for about a dozen answers in all.
    limit = 12 * price + 2 * reservation
    it = fleet(limit=limit)
    with ThreadPoolExecutor(REQUESTS) as pool:
        who = [it.clients[number % len(it.clients)] for number in range(REQUESTS)]
        ended = Counter(pool.map(ask, who, [f"q{number}" for number in range(REQUESTS)]))
    spent, reserved = it.period()
    calls = it.calls()
    most = max(int(json_of(each[7])[0][1]) for each in calls)
    print(f"{dict(ended)}; {spent} of {limit} spent, a reservation {most}")
    assert set(ended) == {(200, ""), (429, "insufficient_quota")}
    assert ended[200, ""] >= 12
    assert reserved == 0
    assert spent <= limit + most
    assert limit - spent < most  # none is refused while a reservation is free
    asked = it.provider.asked()
    assert len(asked) == len(calls) == ended[200, ""]
    assert tokens_of(calls) == told(asked)
    assert (
        spent
        == sum(each[4] for each in calls)
        == sum(cost(each) for each in told(asked).elements())
    )


def test_sums_are_the_providers_after_kills_cut_streams_and_clients_that_leave(
    fleet: Callable[..., Fleet],
) -> None:
    it = fleet(limit=10**12)
    it.provider.fail(main=DAY)
    dice = random.Random(SEED)
    with ThreadPoolExecutor(REQUESTS // 2) as pool:
        jobs = [
            pool.submit(ask_again, dice.choice(it.clients), f"q{number}", leave=number % 5 == 0)
            for number in range(REQUESTS)
        ]
        # Both before one is back: a worker starts for longer than the other needs for the rest.
        for worker in it.workers:
            enough = len(it.provider.asked()) + dice.randint(5, 10)
            wait_until(partial(has_asked, it.provider, enough), seconds=60, what="requests")
            worker.send(signal.SIGKILL)
            worker.wait()
        for worker in it.workers:
            worker.start(reports_ready=True)
        for worker in it.workers:
            worker.wait_ready(worker.said_ready, seconds=60)
        ended = Counter(job.result() for job in jobs)
    left = "SELECT count(*) FROM core_run WHERE state IN ('queued', 'running')"
    wait_until(lambda: query(it.gateway, left) == [(0,)], seconds=30, what="the ends of runs")
    wait_until(lambda: it.period()[1] == 0, seconds=30, what="the ends of reservations")
    spent, _ = it.period()
    calls, asked = it.calls(), it.provider.asked()
    estimated = [each for each in calls if each[5]]
    missing = told(asked) - tokens_of(calls)
    print(f"{dict(ended)}; {len(asked)} requests, {len(calls)} calls, {len(estimated)} estimated")
    print(Counter(each[6] for each in estimated))
    print(f"{missing.total()} usages were told to a process that was killed")
    assert {each[1] for each in calls} == {"settled"}
    assert spent == sum(each[4] for each in calls)
    # The usage that the provider told is stored as told, except to a process that died: that
    # is estimated, as is what it could not tell. Nothing is stored that it did not tell.
    assert not tokens_of(calls) - told(asked)
    assert missing.total() <= len(estimated)
    assert len(asked) <= len(calls)


def has_asked(provider: Aimock, number: int) -> bool:
    """Return whether the provider has got so many requests."""
    return len(provider.asked()) >= number


def ask_again(at: Client, question: str, *, leave: bool) -> tuple[int, str]:
    """Ask until there is an answer, as clients of ``/v1`` do."""
    found: list[tuple[int, str]] = []

    def is_answered() -> bool:
        try:
            found.append(ask(at, question, leave=leave))
        except BROKEN:
            return False
        return found[-1][0] < 500

    wait_until(is_answered, seconds=10, what=question)
    return found[-1]


def cost_of_one(it: Fleet) -> tuple[int, int]:
    """Return what a request costs and reserves."""
    assert ask(it.clients[0], "q00") == (200, "")
    [call] = it.calls()
    return int(call[4]), int(json_of(call[7])[0][1])


def json_of(stored: Any) -> Any:
    """Return a value of a JSON column."""
    return json.loads(stored) if isinstance(stored, str) else stored


def tokens_of(calls: list[tuple[Any, ...]]) -> Counter[tuple[int, int]]:
    """Return the tokens of calls whose usage the provider reported."""
    return Counter((each[2], each[3]) for each in calls if not each[5] and (each[2] or each[3]))


def told(asked: list[Asked]) -> Counter[tuple[int, int]]:
    """Return the usages that the provider told."""
    usages = [each.usage for each in asked if each.usage is not None]
    return Counter((each["prompt_tokens"], each["completion_tokens"]) for each in usages)


def cost(tokens: tuple[int, int]) -> int:
    """Return what tokens cost, in billionths of a dollar."""
    return tokens[0] * INPUT + tokens[1] * OUTPUT
