"""The message classes: one per built-in type, and `CustomMessage` for every other type.

`Message` is a closed union. An adapter matches on the classes and ends in `assert_never`, so a
type that is added here makes mypy name every adapter that forgot it (contract M3).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NotRequired, Required, TypedDict, get_args

from core.messages.props import (
    ActionProps,
    AudioProps,
    ErrorProps,
    EventProps,
    ImageProps,
    LoadingProps,
    RetrievalProps,
    TextProps,
    ThinkingProps,
    ToolCallProps,
    UserInputProps,
    VideoProps,
)

DeltaAction = Literal["append", "replace", "merge", "set"]


class MessageError(ValueError):
    """A message that breaks the protocol; `field` is the path of what is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Metadata(TypedDict, total=False):
    """`timestamp` in milliseconds since 1970 (UTC); `sequence` counts within the run."""

    timestamp: int
    sequence: int


class MessageDict(TypedDict, total=False):
    """A message as JSON: one row of a run's event log, one frame of the native protocol."""

    type: Required[str]
    props: Required[Mapping[str, object]]
    message_id: NotRequired[str]
    block_id: NotRequired[str]
    thread_id: NotRequired[str]
    delta: NotRequired[bool]
    delta_path: NotRequired[str]
    delta_action: NotRequired[DeltaAction]
    type_change: NotRequired[bool]
    metadata: NotRequired[Metadata]


# Not frozen: a frozen dataclass sets every field through object.__setattr__, twice the time on
# a path that is taken for every batch of tokens.
@dataclass(slots=True, kw_only=True)
class Envelope:
    """The common fields of messages besides type and props; empty means absent."""

    message_id: str = ""
    block_id: str = ""
    thread_id: str = ""
    delta: bool = False
    delta_path: str = ""
    delta_action: DeltaAction | None = None
    type_change: bool = False
    metadata: Metadata | None = None


@dataclass(slots=True, kw_only=True)
class UserInputMessage(Envelope):
    props: UserInputProps
    type: Literal["user_input"] = "user_input"


@dataclass(slots=True, kw_only=True)
class TextMessage(Envelope):
    props: TextProps
    type: Literal["text"] = "text"


@dataclass(slots=True, kw_only=True)
class ThinkingMessage(Envelope):
    props: ThinkingProps
    type: Literal["thinking"] = "thinking"


@dataclass(slots=True, kw_only=True)
class LoadingMessage(Envelope):
    props: LoadingProps
    type: Literal["loading"] = "loading"


@dataclass(slots=True, kw_only=True)
class ToolCallMessage(Envelope):
    props: ToolCallProps
    type: Literal["tool_call"] = "tool_call"


@dataclass(slots=True, kw_only=True)
class RetrievalMessage(Envelope):
    props: RetrievalProps
    type: Literal["retrieval"] = "retrieval"


@dataclass(slots=True, kw_only=True)
class ErrorMessage(Envelope):
    props: ErrorProps
    type: Literal["error"] = "error"


@dataclass(slots=True, kw_only=True)
class ImageMessage(Envelope):
    props: ImageProps
    type: Literal["image"] = "image"


@dataclass(slots=True, kw_only=True)
class AudioMessage(Envelope):
    props: AudioProps
    type: Literal["audio"] = "audio"


@dataclass(slots=True, kw_only=True)
class VideoMessage(Envelope):
    props: VideoProps
    type: Literal["video"] = "video"


@dataclass(slots=True, kw_only=True)
class ActionMessage(Envelope):
    props: ActionProps
    type: Literal["action"] = "action"


@dataclass(slots=True, kw_only=True)
class EventMessage(Envelope):
    props: EventProps
    type: Literal["event"] = "event"


@dataclass(slots=True, kw_only=True)
class CustomMessage(Envelope):
    """Any other type; its props are the sender's own."""

    props: Mapping[str, object]
    type: str


BuiltinMessage = (
    UserInputMessage
    | TextMessage
    | ThinkingMessage
    | LoadingMessage
    | ToolCallMessage
    | RetrievalMessage
    | ErrorMessage
    | ImageMessage
    | AudioMessage
    | VideoMessage
    | ActionMessage
    | EventMessage
)
Message = BuiltinMessage | CustomMessage

# The class of each built-in type, by the type's name.
CLASSES: dict[str, Callable[..., Message]] = {
    each.__dataclass_fields__["type"].default: each for each in get_args(BuiltinMessage)
}
BUILTIN_TYPES = tuple(CLASSES)
