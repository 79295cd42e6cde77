"""CPU of one streamed token: our provider, pydantic-ai, and the ``openai`` SDK, in one run.

``python -m tests.benchmarks.providers``: a stub server in a process of its own streams TOKENS
tokens; each client reads them ROUNDS times, interleaved; the CPU is this process's own.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import openai
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from core.providers.agent_library import AgentLibrary
from core.providers.base import ModelRequest, Provider
from core.providers.openai_compatible import OpenAICompatible
from tests.core.providers.model_server import ModelServer, hello, streams

TOKENS = 2000
ROUNDS = 5
ASKED = [{"role": "user", "content": "hi"}]


async def serve() -> None:
    """Answer for ever with TOKENS tokens."""
    server = ModelServer()
    await server.start()
    body = hello(*["token "] * TOKENS)
    server.replies = [streams(body) for _ in range(1000)]
    sys.stdout.write(server.url + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def through(provider: Provider) -> None:
    """Read one answer."""
    async for _ in provider.stream(ModelRequest(list(ASKED))):
        pass


async def measure(url: str) -> None:
    """Print the medians and their ratios to our provider."""
    ours = OpenAICompatible(base_url=url, api_key="k", model="m", first_seconds=9, idle_seconds=9)
    vendor = OpenAIProvider(base_url=url, api_key="k")
    library = AgentLibrary(OpenAIChatModel("m", provider=vendor), first_seconds=9, idle_seconds=9)
    sdk = openai.AsyncOpenAI(base_url=url, api_key="k")

    async def with_sdk() -> None:
        stream = await sdk.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        async for _ in stream:
            pass

    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "aiohttp + orjson (ours)": lambda: through(ours),
        "openai SDK": with_sdk,
        "pydantic-ai": lambda: through(library),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name, read in ways.items():
            began = time.process_time()
            await read()
            if number:
                spent[name].append((time.process_time() - began) / TOKENS * 1000)
    base = statistics.median(spent["aiohttp + orjson (ours)"])
    for name, values in spent.items():
        middle = statistics.median(values)
        print(f"{name:26} {middle:.3f} ms CPU a token  {middle / base:5.1f} x")
    await ours.close()


def main() -> None:
    """Start the server beside us and measure."""
    command = [sys.executable, "-m", "tests.benchmarks.providers", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as server:
        assert server.stdout is not None
        try:
            asyncio.run(measure(server.stdout.readline().strip()))
        finally:
            server.kill()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        main()
