"""The messages that a turn sends to a model."""

from core.agent import prompt
from core.models import Run
from core.providers import catalogue
from core.providers.base import ChatMessage


def sent(run: Run) -> list[ChatMessage]:
    """Return the messages for the first model of the run's chain, without tools."""
    known = catalogue.current()
    model, *_ = known.chain_of(run.assistant_id, first=run.model_id)
    return prompt.prepare(run, known=known).fitted(model)
