"""[L3] A call that the model wrote as text is found, with arguments that are JSON."""

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.agent import fallback
from core.agent.fallback import Wanted
from core.tools.base import Tool, ToolContext, ToolResult


class Search(Tool):
    """A tool of a test."""

    name, description, parameters = "web_search", "", {}

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        raise NotImplementedError


class Slides(Search):
    """One with a name that is no Python."""

    name = "html-slides"


TOOLS: list[Tool] = [Search(), Slides()]
CATS = Wanted("web_search", {"query": "cats"})


def written(text: str) -> Wanted | None:
    return fallback.written_call(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "web_search", "arguments": {"query": "cats"}}',
        'I call {"name": "web_search", "parameters": {"query": "cats"}} now.',
        '{"tool": "web_search", "args": "{\\"query\\": \\"cats\\"}"}',
        '{"tool_name": "web_search", "input": {"query": "cats"}}',
        '{"function": "web_search", "query": "cats", "id": "1", "type": "function"}',
        '{"tool_calls": [{"function": {"name": "web_search", "arguments": {"query": "cats"}}}]}',
        '[{"name": "web_search", "arguments": {"query": "cats"}}]',
        '<tool_call>\n{"name": "web_search", "arguments": {"query": "cats"}}\n</tool_call>',
        '<function_call>{"name": "web_search", "arguments": {"query": "cats"}}',
        'So:\n```json\n{"name": "web_search", "arguments": {"query": "cats"}}\n```\nDone.',
        'web_search(query="cats")',
        '```python\nweb_search(query="cats")\n```',
        'I use web_search(query="cats"),\nas you asked.',
        "web_search (query) is next: web_search(query='cats')",
        "web_search(cats) web_search(query='cats')",
        "print(1), web_search(query='cats')",
        "web_search(query='cats'), not html-slides",
        '{"name": "web_search", "arguments": {"query": "cats"}}.',
        '{"tool": "web_search", "query": "cats"}',
        '{"tool_name": "web_search", "query": "cats"}',
        '{"name": "web_search", "arguments": "no JSON", "parameters": {"query": "cats"}}',
        'In {1}:\n```json\n{"name": "web_search",\n"arguments": {"query": "cats"}}\n``` and {2}',
        'In {1}: <tool>{"name": "web_search",\n"arguments": {"query": "cats"}}</tool> and {2}',
        '{<tool>{"name": "web_search", "arguments": {"query": "cats"}}</tool> ```{1}``` }',
    ],
)
def test_l3_a_written_call_is_found(text: str) -> None:
    assert written(text) == CATS


def test_l3_a_name_written_a_thousand_times_holds_up_no_worker() -> None:
    """[L3]: each was parsed up to the end of the answer, for seconds."""
    text = f"{TOOLS[0].name}(a=1," * 2000
    began = time.process_time()
    assert written(f"{text[:19_990]})") is None
    assert time.process_time() - began < 0.7


def test_l3_a_call_has_a_longest_text() -> None:
    call = 'web_search(query="cats")'
    assert written(call.ljust(20_000)) == CATS
    assert written(call.ljust(20_001)) is None


def test_l3_a_call_of_a_tool_whose_name_is_no_python_is_found() -> None:
    assert written('html-slides(topic="Sun", slides=5)') == Wanted(
        "html-slides", {"topic": "Sun", "slides": 5}
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "web_search is a tool.",
        '{"name": "other", "note": "web_search"}',
        '{"name": ["web_search"]}',
        '["web_search"]',
        '{"tool_calls": ["web_search"]}',
        "[] web_search",
        'web_search("cats")',
        "web_search(query=cats)",
        "web_search(query='cats'",
        "my_web_search(query='cats')",
        "tools.web_search(query='cats')",
        "web_search(query='cats') or (not)",
    ],
)
def test_l3_other_text_is_no_call(text: str) -> None:
    assert written(text) is None


@pytest.mark.parametrize(
    "value",
    [
        "{'a', 'b'}",
        "b'cats'",
        "1j",
        "...",
        "{1: 2}",
        "{[1]: 2}",
        "{{}}",
        str(2**70),
        "'\\ud800'",
        "[" * 90 + "]" * 90 + "+1",
        "-" * 5000 + "1",
    ],
)
def test_l3_arguments_that_are_no_json_are_no_call(value: str) -> None:
    """Small models write Python: a turn must not fail by it."""
    assert written(f"web_search(query={value})") is None


def test_l3_arguments_that_are_nested_too_deeply_are_no_call() -> None:
    deep = "[" * 400 + "]" * 400
    assert written(f'{{"name": "web_search", "arguments": {{"query": {deep}}}}}') is None


def test_l3_arguments_with_a_number_that_would_be_rounded_are_no_call() -> None:
    call = f'{{"name": "web_search", "arguments": {{"query": {2**70}}}}}'
    assert written(call) is None


def test_l3_the_rest_of_the_arguments_counts_without_a_mapping() -> None:
    assert written("web_search(query='cats', **{'a': 1})") == CATS
    beside = '{"name": "web_search", "arguments": "no JSON", "query": "cats"}'
    assert written(beside) == Wanted("web_search", {"arguments": "no JSON", "query": "cats"})


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda each: (
        st.lists(each)
        | st.sets(st.integers())
        | st.dictionaries(st.text() | st.integers(), each)
        | st.tuples(each)
    ),
)


@pytest.mark.unmeasured
@given(LITERALS, st.text(max_size=20), st.text(max_size=20))
def test_l3_every_call_that_is_found_can_be_written(value: object, before: str, after: str) -> None:
    found = written(f"{before} web_search(query={value!r}) {after}")
    if found is not None:
        orjson.dumps(found.arguments)


@pytest.mark.parametrize("begun", ["<tool>", "<tool>a", "```", "```json"])
@pytest.mark.parametrize("filled", [" ", "a", "\n"])
def test_an_answer_that_goes_on_without_end_costs_no_time(begun: str, filled: str) -> None:
    """Weak models repeat a sign up to their limit; all other answers waited meanwhile."""
    start = time.process_time()
    assert written(f"{begun}{filled * 15_000}. web_search") is None
    assert time.process_time() - start < 0.5


def test_l3_an_announcement_that_asks_back_is_no_promise() -> None:
    """[L3] The person is to answer first."""
    for text in ("I'll make your slides. How many?", "I'll make your slides. **How many?**"):
        assert not fallback.is_promise(text)
        assert fallback.is_promise(text.partition(".")[0])
