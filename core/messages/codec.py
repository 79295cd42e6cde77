"""Convert messages to JSON dicts and back.

Both directions run for every batch of streamed tokens: props are passed by reference, not copied,
and only existing fields are checked.
"""

from collections.abc import Callable, Mapping

from core.messages import checks
from core.messages.paths import parse_path
from core.messages.types import (
    CLASSES,
    CustomMessage,
    Message,
    MessageDict,
    MessageError,
    Metadata,
)

_CUSTOM: Callable[..., Message] = CustomMessage

_ENVELOPE = {
    name: check
    for name, check in checks.fields_of(MessageDict).items()
    if name not in ("type", "props")
}
_METADATA = checks.fields_of(Metadata)


def to_dict(message: Message) -> MessageDict:
    """Return the message as a JSON dict; absent envelope fields are left out, props are shared."""
    data: MessageDict = {"type": message.type, "props": message.props}
    if message.message_id:
        data["message_id"] = message.message_id
    if message.block_id:
        data["block_id"] = message.block_id
    if message.thread_id:
        data["thread_id"] = message.thread_id
    if message.delta:
        data["delta"] = True
    if message.delta_path:
        data["delta_path"] = message.delta_path
    if message.delta_action:
        data["delta_action"] = message.delta_action
    if message.type_change:
        data["type_change"] = True
    if message.metadata:
        data["metadata"] = message.metadata
    return data


def from_dict(data: Mapping[str, object]) -> Message:
    """Read a message from a JSON dict.

    Fields outside the protocol are dropped from the envelope and kept in the props; a missing prop
    is not an error (a delta has only its changes).

    Raises `MessageError` naming the first field that has the wrong type.
    """
    message_type = data.get("type")
    if not isinstance(message_type, str) or not message_type:
        raise MessageError("type", "must be a non-empty string")
    props = data.get("props", {})
    if not isinstance(props, dict):
        raise MessageError("props", "must be an object")
    envelope = _envelope(data)
    build = CLASSES.get(message_type)
    if build is not None:
        checks.present(props, checks.FIELDS[message_type], "props")
        return build(props=props, **envelope)
    if not checks.TYPE_NAME.fullmatch(message_type):
        raise MessageError("type", "must be 1 to 64 ASCII letters, digits or _.- after a letter")
    return _CUSTOM(type=message_type, props=props, **envelope)


def _envelope(data: Mapping[str, object]) -> dict[str, object]:
    """Return the checked envelope fields that exist."""
    envelope: dict[str, object] = {}
    for name, value in data.items():
        check = _ENVELOPE.get(name)
        if check is None or value is None:
            continue
        check(value, name)
        envelope[name] = value
    metadata = envelope.get("metadata")
    if isinstance(metadata, dict):
        checks.present(metadata, _METADATA, "metadata")
    path = envelope.get("delta_path")
    if isinstance(path, str) and parse_path(path) is None:
        raise MessageError("delta_path", "must look like a.b[0].c")
    return envelope
