"""The provider that breaks does break as it is told, and its journal is true."""

import asyncio

import pytest

from core.providers.base import Finish, ModelRequest, ProviderError, TextDelta, Usage
from core.providers.openai_compatible import OpenAICompatible
from tests.models_chaos.aimock import FAULTS, Aimock, answer_to

pytestmark = pytest.mark.slow
KEY = "Zk3vQ0Canary"


def ask(provider: Aimock, question: str, *, model: str) -> tuple[str, Usage | None]:
    """Return an answer's text and usage, through the gateway's own client."""

    async def run() -> tuple[str, Usage | None]:
        client = OpenAICompatible(
            base_url=provider.url, api_key=KEY, model=model, first_seconds=1, idle_seconds=1
        )
        pieces, usage = [], None
        request = ModelRequest([{"role": "user", "content": f"Tell me about {question}."}])
        try:
            async for delta in client.stream(request):
                if isinstance(delta, TextDelta):
                    pieces.append(delta.text)
                elif isinstance(delta, Usage):
                    usage = delta
                else:
                    assert delta == Finish("stop")
        finally:
            await client.close()
        return "".join(pieces), usage

    return asyncio.run(run())


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_comes_in_turn_and_is_classed(provider: Aimock, fault: str) -> None:
    provider.fail(turns=["", fault])
    for number in range(2):
        text, usage = ask(provider, f"q{number}", model="turns")
        assert text == answer_to(f"q{number}", model="turns")
        assert usage == Usage(prompt_tokens=4, completion_tokens=24)
        with pytest.raises(ProviderError) as raised:
            ask(provider, "q9", model="turns")
        assert raised.value.code == FAULTS[fault]
    asked = provider.asked(model="turns")
    assert [each.fault for each in asked] == ["", fault] * 2
    assert [each.done and each.usage is not None for each in asked] == [True, False] * 2


def test_the_journal_of_aimock_has_each_request(provider: Aimock) -> None:
    provider.fail()
    ask(provider, "q77", model="journal")
    [asked] = provider.asked(model="journal")
    [found] = [each for each in provider.journal() if each["body"]["model"] == "journal"]
    assert found["headers"]["x-request-id"] == f"r{asked.number}"
    assert found["response"]["status"] == asked.status == 200
    assert asked.usage == {"prompt_tokens": 4, "completion_tokens": 24, "total_tokens": 28}
