"""The contract of a tool."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from core.conversations.schedules.changes import Grant
from core.conversations.tool_calls import SignInWanted, Stored
from core.messages import Message, message_end, message_start
from core.models import Schedule


class GrantOf(Protocol):
    """Returns the grant by which the person of a turn may make schedules. Raises RuleError, also
    where the grant by which the schedule ``of`` was made has ended.
    """

    def __call__(self, *, of: Schedule | None = None) -> Grant: ...


if TYPE_CHECKING:
    from core.providers.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The user of a call, and the target of its progress. ``emit`` adds a message to the run's log.

    ``request``: the user's text. ``context_tokens``: the window of the models that may answer.
    ``more_time`` extends the turn's time limit by seconds, for long work. ``was_said``: whether an
    earlier attempt of the run emitted this message. ``is_listed``: whether the sender is this
    person, not one admitted by an open list; like ``schedule_grant``, it may block.
    """

    run_id: int
    user_id: int
    session_id: int
    tool_call_id: str
    time_zone: str
    emit: Callable[[Message], None]
    request: str = ""
    context_tokens: int = 8192
    more_time: Callable[[float], None] = lambda _seconds: None
    was_said: Callable[[str], bool] = lambda _message_id: False
    schedule_grant: GrantOf = lambda of=None: Grant()
    is_listed: Callable[[], bool] = lambda: True

    def send(self, message: Message) -> None:
        """Add a whole message with its start and end to the log, unless it is there ([M2])."""
        if self.was_said(message.message_id):
            return
        kind, name = message.type, message.message_id
        self.emit(message_start(message_id=name, message_type=kind))
        self.emit(message)
        self.emit(message_end(message_id=name, message_type=kind))


@dataclass(frozen=True, slots=True)
class ToolResult(Stored):
    """The result for the model, and what the user is shown.

    ``final``: the text is the answer to the user, verbatim; the model is not asked again.
    ``shown``: a text that the user is shown verbatim; the model goes on after it.
    ``messages`` (created pictures, recordings, videos) follow the text, and are not kept.
    ``sign_in``: the call was not made; somebody has to sign in first.
    """

    messages: list[Message] = field(default_factory=list)


class ToolError(Exception):
    """The tool failed; the text is for the model."""


class SignInError(ToolError):
    """The call was not made, since somebody has to sign in first: ``wanted`` says where. The turn
    ends with that question, and another run makes the call.
    """

    def __init__(self, text: str, wanted: SignInWanted) -> None:
        super().__init__(text)
        self.wanted = wanted


Ask = Literal["never", "first", "always"]


class Tool(Protocol):
    """One tool. ``parameters`` is a JSON schema; ``infer`` is the fallback of [L3].

    ``ask``: whether a call waits for a yes: never, until the first yes for this person, or always;
    ``asks``: whose. ``idempotent``: whether a call may be made again after a kill, when it
    may have happened. ``recorded``: whether its calls are kept all the same, so that the next
    attempt of a killed run begins with them: a model that is asked anew gives them other ids.
    ``seconds``: the time limit of a call; 0 for the turn's own.

    Tools derive from it for the defaults.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    ask: Ask = "never"
    asks: Literal["owner", "person"] = "owner"
    idempotent: bool = True
    recorded: bool = False
    seconds: float = 0.0

    def is_usable(self, known: "Catalogue") -> bool:
        """Return whether the gateway is set up for it; a tool that is not is not offered."""
        return True

    def progress(self, arguments: dict[str, Any]) -> str:
        """Return the line shown while it runs ([D2]); empty for quick tools."""
        return ""

    def cost(self, arguments: dict[str, Any]) -> str:
        """Return what a call costs, in words, for who allows it; empty when it costs nothing."""
        return ""

    def infer(self, text: str) -> dict[str, Any] | None:
        """Return arguments inferred from the user's text; None unless the request is clear."""
        return None

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool. Raises ToolError with a text for the model."""
        ...
