"""Whatever JSON a server sends, it is read or refused: nothing else escapes."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.providers import listing, questions
from core.providers.base import ProviderError, Usage
from core.providers.failures import BadStreamError, classify
from core.providers.openai_compatible import deltas

NAMES = st.sampled_from(
    [
        "id",
        "name",
        "model",
        "choices",
        "delta",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "index",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "completion_tokens_details",
        "reasoning_tokens",
        "x_groq",
        "error",
        "message",
        "code",
        "type",
        "text",
        "thinking",
        "finish_reason",
        "capabilities",
        "vision",
        "architecture",
        "input_modalities",
        "supported_parameters",
        "supportedGenerationMethods",
        "inputTokenLimit",
        "max_model_len",
        "candidates",
        "parts",
        "functionCall",
        "data",
        "models",
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=5)
)
BODIES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=5)),
    max_leaves=25,
)
OBJECTS = st.dictionaries(NAMES, BODIES, max_size=6)


def sent(body: Any) -> Any:
    """Return a body as it arrives: JSON has no NaN."""
    return orjson.loads(orjson.dumps(body))


@pytest.mark.unmeasured
@pytest.mark.sampled
@given(OBJECTS)
def test_a_chunk_is_read_or_refused(body: dict[str, Any]) -> None:
    try:
        found = deltas(sent(body))
    except (BadStreamError, ProviderError):
        return
    for each in found:
        if isinstance(each, Usage):
            assert 0 <= each.cached_tokens <= each.prompt_tokens
            assert 0 <= each.reasoning_tokens <= each.completion_tokens


@pytest.mark.unmeasured
@pytest.mark.sampled
@given(st.lists(OBJECTS, max_size=5))
def test_a_list_of_models_is_read(body: list[dict[str, Any]]) -> None:
    for each in listing.named(entry for entry in sent(body) if listing.answers_chat(entry)):
        assert 0 < len(each.name) <= listing.LONGEST_NAME
        assert each.context_tokens is None or 0 < each.context_tokens < 2**31


@pytest.mark.unmeasured
@pytest.mark.sampled
@given(BODIES, st.booleans())
def test_an_answer_to_an_examination_is_judged_or_not(body: Any, with_tool: bool) -> None:
    assert questions.is_done(sent(body), with_tool=with_tool) in {True, False, None}


@pytest.mark.unmeasured
@pytest.mark.sampled
@given(BODIES, st.sampled_from([200, 400, 401, 404, 429, 500, 529]))
def test_an_error_is_classed(body: Any, status: int) -> None:
    assert classify(status=status, body=orjson.dumps(body)).code
