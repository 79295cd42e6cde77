"""One merge on both sides: core.messages.merge and static/latchkey/merge.js ([M1], [M2])."""

from __future__ import annotations

import json
import random
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.messages import MessageError, apply_delta, fold, from_dict
from core.messages.paths import parse_path
from tests import ROOT

FOLD_JS = ROOT / "channels_app/static/latchkey/fold.js"
ANSWER_SECONDS = 60
BATCHES, BATCH_SIZE = 400, 250  # 100,000 sequences

Event = dict[str, Any]


class NodeMerge:
    """One node process that folds sequences with fold.js and merge.js, a line of JSON each way."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("node is not installed")
        script = Path(__file__).with_name("merge_lines.mjs")
        self.process = subprocess.Popen(
            [node, str(script), str(FOLD_JS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def fold(self, sequences: list[list[Event]]) -> list[list[Event]]:
        stdin, stdout = self._pipes()
        stdin.write(orjson.dumps(sequences) + b"\n")
        stdin.flush()
        ready, _, _ = select.select([stdout], [], [], ANSWER_SECONDS)
        assert ready, "node did not answer in time"
        answer: list[list[Event]] = json.loads(stdout.readline())
        return answer

    def close(self) -> None:
        stdin, stdout = self._pipes()
        stdin.close()
        assert self.process.wait(timeout=ANSWER_SECONDS) == 0
        stdout.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return self.process.stdin, self.process.stdout


@pytest.fixture(scope="module")
def node() -> Iterator[NodeMerge]:
    merge = NodeMerge()
    yield merge
    merge.close()


def canonical(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


KEYS = ["content", "items", "meta", "a", "0", "1", "__proto__", "constructor", "length", "é", ""]
STEPS = ["content", "items", "meta", "a", "__proto__", "items[0]", "items[1]", "a[0][2]", "0", "é"]
ACTIONS = ["append", "replace", "merge", "set"]
TYPES = ["text", "loading", "status"]


def random_value(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice([0, -1, 7, 2**53 - 1, 0.5, -2.25])
    if kind <= 4:
        return rng.choice(["", "x", " world", "é\n", "🙂", "props."])
    if kind == 5:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return random_object(rng, depth + 1)


def random_object(rng: random.Random, depth: int = 0) -> Event:
    return {rng.choice(KEYS): random_value(rng, depth) for _ in range(rng.randrange(4))}


def random_path(rng: random.Random) -> str:
    path = ".".join(rng.choice(STEPS) for _ in range(rng.randrange(1, 4)))
    damage = rng.randrange(20)
    if damage == 0:
        return path + rng.choice([".", "[", "[x]", "..", "[99999]", "\n", "]"])
    return "props." + path if damage < 6 else path


def props_for(rng: random.Random, path: str) -> Event:
    """Generate mostly props with a value at the path, as for a real delta."""
    steps = parse_path(path)
    if not steps or rng.randrange(5) == 0:
        return random_object(rng)
    value = random_value(rng, 1)
    for step in reversed(steps):
        value = [None] * step + [value] if isinstance(step, int) else {step: value}
    assert isinstance(value, dict)
    return value


def random_event(rng: random.Random) -> Event:
    event: Event = {"type": rng.choice(TYPES), "message_id": rng.choice(["M1", "M2", "M3"])}
    if rng.randrange(6) == 0:
        return event | {"props": random_object(rng)}
    event["delta"] = True
    path = random_path(rng) if rng.randrange(3) else ""
    if path:
        event["delta_path"] = path
    if rng.randrange(8):
        event["delta_action"] = rng.choice(ACTIONS)
    if rng.randrange(10) == 0:
        event["type_change"] = True
    if rng.randrange(10) == 0:
        event["metadata"] = {"timestamp": 1, "sequence": rng.randrange(9)}
    return event | {"props": props_for(rng, path)}


def random_sequence(rng: random.Random) -> list[Event]:
    return [random_event(rng) for _ in range(rng.randrange(1, 9))]


def assert_same(node: NodeMerge, sequences: list[list[Event]]) -> None:
    for sequence, theirs in zip(sequences, node.fold(sequences), strict=True):
        assert canonical(fold(sequence)) == canonical(theirs), json.dumps(sequence)


@pytest.mark.slow
@settings(max_examples=BATCHES, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64 - 1))
def test_m1_server_and_browser_merge_100_000_random_sequences_alike(
    node: NodeMerge, seed: int
) -> None:
    rng = random.Random(seed)
    assert_same(node, [random_sequence(rng) for _ in range(BATCH_SIZE)])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
DELTAS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(TYPES),
        "message_id": st.sampled_from(["M1", "M2"]),
        "delta": st.just(value=True),
        "props": st.dictionaries(st.sampled_from(KEYS), JSON_VALUES, max_size=3),
    },
    optional={
        "delta_path": st.lists(st.sampled_from(STEPS) | st.text(max_size=4), max_size=3).map(
            ".".join
        ),
        "delta_action": st.sampled_from(ACTIONS),
        "type_change": st.booleans(),
        "block_id": st.sampled_from(["", "B1"]),
    },
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(sequence=st.lists(DELTAS, max_size=6))
def test_m1_server_and_browser_merge_alike_on_drawn_and_shrinkable_deltas(
    node: NodeMerge, sequence: list[Event]
) -> None:
    assert_same(node, [sequence])


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_m2_messages_between_never_change_the_order_of_one_messages_deltas(seed: int) -> None:
    sequence = random_sequence(random.Random(seed))
    together = {message["message_id"]: message for message in fold(sequence)}
    for message_id, message in together.items():
        alone = fold([event for event in sequence if event["message_id"] == message_id])
        assert canonical(alone) == canonical([message])


@given(pieces=st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=20))
def test_m2_appended_pieces_add_up_in_the_order_they_came(pieces: list[str]) -> None:
    deltas = [
        {"type": "text", "message_id": "M1", "delta": True, "props": {"content": piece}}
        for piece in pieces
    ]
    assert fold(deltas)[0]["props"]["content"] == "".join(pieces)


@given(seed=st.integers(0, 2**64 - 1))
def test_m1_a_merge_changes_nothing_in_place(seed: int) -> None:
    sequence = random_sequence(random.Random(seed))
    before = canonical(sequence)
    fold(sequence)
    assert canonical(sequence) == before


def merged(old: Event, /, **delta: object) -> object:
    """Return the props after one delta."""
    start = {"type": "t", "message_id": "M1", "props": old}
    event = {"type": "t", "message_id": "M1", "delta": True, **delta}
    return apply_delta(start, event)["props"]


def test_m1_append_joins_text_and_lists_and_pushes_single_items() -> None:
    assert merged({"a": "x"}, props={"a": "y"}) == {"a": "xy"}
    assert merged({"a": [1]}, props={"a": [2, 3]}) == {"a": [1, 2, 3]}
    assert merged({"a": [1]}, props={"a": 2}) == {"a": [1, 2]}
    assert merged({"a": 1}, props={"a": 2}) == {"a": 2}
    assert merged({}, props={"a": "y"}, delta_path="a") == {"a": "y"}


def test_m1_set_touches_only_its_path_and_replace_all_or_one_place() -> None:
    old = {"a": 1, "b": {"c": 2}}
    assert merged(old, delta_action="set", props={"a": 5}) == {"a": 5, "b": {"c": 2}}
    assert merged(old, delta_action="replace", props={"z": 1}) == {"z": 1}
    path = {"delta_action": "replace", "delta_path": "b.c", "props": {"b": {"c": [1]}}}
    assert merged(old, **path) == {"a": 1, "b": {"c": [1]}}


def test_m1_merge_is_deep_and_replaces_values_that_are_not_objects() -> None:
    old = {"m": {"x": {"p": 1}, "l": [1]}}
    change = {"m": {"x": {"q": 2}, "l": [2]}}
    assert merged(old, delta_action="merge", props=change) == {
        "m": {"x": {"p": 1, "q": 2}, "l": [2]}
    }


def test_m1_a_path_that_starts_with_props_is_the_path_without_it() -> None:
    assert parse_path("props.items[1].name") == ("items", 1, "name")
    assert parse_path("props") == ()
    assert parse_path("propsy.x") == ("propsy", "x")
    delta = {"delta_path": "props.a.b", "delta_action": "set", "props": {"a": {"b": 1}}}
    assert merged({}, **delta) == {"a": {"b": 1}}


def test_m1_missing_parents_are_created_and_lists_grow_with_holes() -> None:
    delta = {"delta_path": "l[2].x", "props": {"l": [None, None, {"x": "v"}]}}
    assert merged({}, **delta) == {"l": [None, None, {"x": "v"}]}
    dotted = {"delta_path": "l.0", "delta_action": "set", "props": {"l": ["v"]}}
    assert merged({"l": ["old", "b"]}, **dotted) == {"l": ["v", "b"]}


@pytest.mark.parametrize(
    "delta",
    [
        {"delta_path": "a[", "props": {"a": 1}},
        {"delta_path": "a.b", "props": {"a": {"b": 1}}},  # a is a text
        {"delta_path": "l.x", "props": {"l": {"x": 1}}},  # l is a list
        {"delta_path": "missing", "props": {"a": 1}},
        {"delta_path": "l[99999]", "props": {}},
        {"delta_path": "l[7]", "props": {"l": [1]}},
        {"delta_path": "l.x", "props": {"l": [1]}},
        {"delta_path": "a.b", "props": {"a": "x"}},
    ],
)
def test_m1_a_delta_that_does_not_fit_changes_nothing(delta: Event) -> None:
    old = {"a": "text", "l": [1]}
    assert merged(old, **delta) == old


def test_m1_type_change_drops_the_props_of_the_old_type() -> None:
    start = {"type": "loading", "message_id": "M1", "props": {"message": "wait"}}
    delta = {"type": "text", "message_id": "M1", "delta": True, "props": {"content": "done"}}
    assert apply_delta(start, delta)["props"] == {"message": "wait", "content": "done"}
    changed = apply_delta(start, delta | {"type_change": True})
    assert changed == {"type": "text", "message_id": "M1", "props": {"content": "done"}}


def test_m1_the_address_of_a_message_survives_its_deltas() -> None:
    start = {"type": "t", "message_id": "M1", "block_id": "B1", "thread_id": "T", "props": {}}
    delta = {"type": "t", "message_id": "M1", "delta": True, "props": {}, "block_id": "B2"}
    after = apply_delta(start, delta)
    assert (after["block_id"], after["thread_id"]) == ("B2", "T")


@pytest.mark.parametrize("path", ["a[", "a..b", ".a", "a.", "a[x]", "[0]", "a[12345]", "a]b"])
def test_m1_a_malformed_path_is_refused_by_name(path: str) -> None:
    delta = {"type": "t", "message_id": "M", "delta": True, "delta_path": path, "props": {}}
    with pytest.raises(MessageError, match="delta_path"):
        from_dict(delta)
