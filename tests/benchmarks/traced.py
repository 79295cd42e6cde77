"""The cost of OpenTelemetry spans for a turn: two gateways, of which one exports them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from gateway_project.home import BASE_DIR
from tests.benchmarks import chats, gateway, machine
from tests.benchmarks.chats import PIPE, Target
from tests.benchmarks.gateway import MeasuredGateway
from tests.benchmarks.models import asker
from tests.benchmarks.report import Row
from tests.otlp import Receiver

OFF, ON = "off", "on"
LOAD = chats.Load(1, 40, 64, per_second=200)


@contextmanager
def targets(at: MeasuredGateway, receiver: Receiver) -> Iterator[dict[str, Target]]:
    """Yield the floor, and a person of each gateway."""
    tracing = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    with gateway.beside(at, BASE_DIR, **tracing) as other:
        yield {PIPE: chats.floor(at), OFF: asker(at, 0), ON: asker(other, 0)}


async def rows(at: MeasuredGateway, *, rounds: int) -> list[Row]:
    """Return the lines of this part."""
    with closing(Receiver()) as receiver, targets(at, receiver) as known:
        found = await chats.compare(at, known, LOAD, rounds)
        assert receiver.spans(name="turn"), "no span came"
    off, on = ([sum(each.values()) for each in found[name].cpu] for name in (OFF, ON))
    ratio = machine.median([one / other for one, other in zip(on, off, strict=True)])
    text = f"{machine.median(on) * 1000:.2f} / {machine.median(off) * 1000:.2f} ms = {ratio:.3f} ×"
    return [Row("tracing: CPU of a turn, on / off", text, "≤ 1.02 ×")]
