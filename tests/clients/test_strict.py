"""The official Python clients with ``_strict_response_validation``: an answer that is not of the
declared types raises, whole or streamed. The JavaScript client has no such mode; its stream helper
checks what it assembles (``openai.mjs``).

An endpoint is one more function in ``CLIENTS``: it asks everything once and returns the texts of
the answers.
"""

from collections.abc import Callable, Iterator

import openai
import pytest

from tests.clients.test_python import PARIS, TOOL
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
# Given the address of the gateway and a key.
Ask = Callable[[str, str], Iterator[str]]


def client(base: str, key: str) -> openai.OpenAI:
    """Return the strict client of OpenAI."""
    return openai.OpenAI(
        base_url=f"{base}/v1", api_key=key, max_retries=0, _strict_response_validation=True
    )


def chat_completions(base: str, key: str) -> Iterator[str]:
    """Ask for an answer whole and streamed, with its usage, and for calls of the client's tool."""
    with client(base, key) as strict:
        create = strict.chat.completions.create
        whole = create(model="default", messages=[{"role": "user", "content": "everything"}])
        yield whole.choices[0].message.content or ""
        text = ""
        for chunk in create(
            model="default",
            messages=[{"role": "user", "content": "everything"}],
            stream=True,
            stream_options={"include_usage": True},
        ):
            text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        yield text
        called = create(
            model="default", messages=[{"role": "user", "content": "weather?"}], tools=[TOOL]
        )
        assert called.choices[0].message.tool_calls
        calls = create(
            model="default",
            messages=[{"role": "user", "content": "weather?"}],
            tools=[TOOL],
            stream=True,
        )
        assert any(each.choices and each.choices[0].delta.tool_calls for each in calls)


def models(base: str, key: str) -> Iterator[str]:
    """Ask for the list of models and for one of them."""
    with client(base, key) as strict:
        names = [model.id for model in strict.models.list()]
        assert names == [strict.models.retrieve(name).id for name in names] == ["default"]
    yield from ()


CLIENTS: dict[str, Ask] = {"chat completions": chat_completions, "models": models}


@pytest.mark.parametrize("name", CLIENTS)
def test_w74_a_strict_client_takes_every_answer(name: str, scripted: Gateway, token: str) -> None:
    """[W74] Whole and streamed: all fields that its types ask for, and of these types."""
    for text in CLIENTS[name](scripted.base_url, token):
        assert PARIS in text
