"""The reference merge: how a delta changes a message, on the server and in the browser.

`static/latchkey/merge.js` is the same function in JavaScript; a property test compares the
two. Both are total (a delta that does not fit changes nothing) and change nothing in place.

Rules (the long form is docs/messages.md):

* A message that is not a delta stands for itself and replaces what was there.
* The type follows the delta. With `type_change` the old props are dropped first.
* Without `delta_path` the action applies to the props: `append` to each prop the delta has,
  `replace` to all props at once, `merge` deep, `set` to each prop the delta has.
* With `delta_path` it applies to the value there; the new value stands at the same path in the
  delta's props. Missing or null parents are created.
* `append`: text to text, list to list, another value becomes a list's last item; on anything
  else the new value replaces the old. `merge`: objects key by key, everything else is replaced.
"""

from collections.abc import Iterable, Mapping
from typing import Final, cast

from core.messages.paths import Path, list_index, parse_path
from core.messages.types import MessageDict

_ADDRESS = ("message_id", "block_id", "thread_id", "metadata")


class _Missing:
    """The absence of a value; JSON null is a value."""


_MISSING: Final = _Missing()


def apply_delta(message: Mapping[str, object] | None, delta: Mapping[str, object]) -> MessageDict:
    """Return the message after one more event with its id; `message` is None for the first."""
    if delta.get("delta") is not True:
        return cast("MessageDict", delta)
    before = message or {}
    keep = {} if delta.get("type_change") is True else _object(before.get("props"))
    merged: dict[str, object] = {
        "type": delta.get("type") or before.get("type"),
        "props": _merge_props(keep, delta),
    }
    for name in _ADDRESS:
        value = delta.get(name, before.get(name))
        if value is not None:
            merged[name] = value
    return cast("MessageDict", merged)


def fold(events: Iterable[Mapping[str, object]]) -> list[MessageDict]:
    """Return the messages of a sequence of events, in the order of their first event.

    Events without a message id are messages of their own.
    """
    messages: dict[object, MessageDict] = {}
    for position, event in enumerate(events):
        key = event.get("message_id") or position  # an id is a text, a position a number
        messages[key] = apply_delta(messages.get(key), event)
    return list(messages.values())


def _merge_props(props: dict[str, object], delta: Mapping[str, object]) -> dict[str, object]:
    change = _object(delta.get("props"))
    action = delta.get("delta_action") or "append"
    path = parse_path(_text(delta.get("delta_path")))
    if path is None:
        return props
    if path:
        value = _get(change, path)
        if isinstance(value, _Missing):
            return props
        return _object(_put(props, path, value, action))
    if action == "replace":
        return change
    return _combine_each(props, change, action)


def _combine_each(
    old: dict[str, object], change: dict[str, object], action: object
) -> dict[str, object]:
    return old | {
        name: _combine(old.get(name, _MISSING), value, action) for name, value in change.items()
    }


def _combine(old: object, new: object, action: object) -> object:
    """Return one value after an action."""
    if action == "append":
        return _append(old, new)
    if action == "merge" and isinstance(old, dict) and isinstance(new, dict):
        return _combine_each(old, new, action)
    return new


def _append(old: object, new: object) -> object:
    if isinstance(old, str) and isinstance(new, str):
        return old + new
    if isinstance(old, list):
        return [*old, *new] if isinstance(new, list) else [*old, new]
    return new


def _get(container: object, path: Path) -> object:
    """Return the value at a path, or `_MISSING`."""
    for step in path:
        if isinstance(container, dict):
            container = container.get(str(step), _MISSING)
        elif isinstance(container, list):
            index = list_index(step)
            if index is None or index >= len(container):
                return _MISSING
            container = container[index]
        else:
            return _MISSING
    return container


def _put(container: object, path: Path, value: object, action: object) -> object:
    """Apply the action at the path; return the container, unchanged where the path does not fit."""
    if not path:
        return _combine(container, value, action)
    step, rest = path[0], path[1:]
    if container is None or isinstance(container, _Missing):
        container = [] if isinstance(step, int) else {}
    if isinstance(container, dict):
        name = str(step)
        return container | {name: _put(container.get(name, _MISSING), rest, value, action)}
    index = list_index(step)
    if not isinstance(container, list) or index is None:
        return container
    grown = container + [None] * (index + 1 - len(container))
    grown[index] = _put(grown[index], rest, value, action)
    return grown


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
