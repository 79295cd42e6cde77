"""``POST /v1/embeddings`` and ``/v1/audio/…``: answered by the provider of the named model."""

import asyncio
import logging
from abc import abstractmethod
from typing import ClassVar

from channels_app.asgi.admission import admit_head
from channels_app.asgi.authentication import slot
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.http import ClientGoneError, RefusedError
from channels_app.asgi.waiting import until_end
from channels_app.client_api import failures, models
from channels_app.client_api.openai import adapter
from channels_app.client_api.openai.endpoints import OpenAIEndpoint
from channels_app.client_api.passthrough import bodies, calls, targets
from channels_app.client_api.passthrough.bodies import Asked
from channels_app.client_api.run_adapter import Failure
from channels_app.client_api.sessions import ORIGIN
from core.conversations import assistants
from core.conversations.usage import RunMeter
from core.database.transactions import in_thread
from core.providers import catalogue
from core.providers.base import ProviderError

logger = logging.getLogger(__name__)


class PassedOn(OpenAIEndpoint):
    """A request that a provider answers. ``path``: of its address, and of the provider's."""

    methods = ("POST",)
    path: ClassVar[str]

    @abstractmethod
    def read(self, body: bytes, content_type: str) -> Asked:
        """Read the body; in a thread. Raises RefusedError."""

    async def check_head(self) -> None:
        """Check as every endpoint does; the caller has to be a person."""
        admit_head()
        await super().check_head()
        if self.caller.user is None:
            raise RefusedError(403, "This needs the key of a person, not of a bridge.")

    async def handle(self, body: bytes) -> None:
        """Pass a request on, and its answer back as it comes."""
        kind = self.request.header("content-type")
        asked = await asyncio.to_thread(self.read, body, kind)
        with slot(self.caller):
            try:
                await self.pass_on(asked)
            except ProviderError as error:
                await self.answer_error(error)

    async def pass_on(self, asked: Asked) -> None:
        """Call the provider. Raises RefusedError, ProviderError."""
        target, meter = await in_thread(self.chosen, asked)
        call = calls.Call(target, calls.request_of(asked, target), meter, asked.output)
        async with call.stack:
            end, _ = await until_end(call.begin(asked, self.path), incoming=self.incoming)
            if end == "gone":
                raise ClientGoneError
            headers = {"Content-Type": call.content_type}
            await self.stream(call.pieces(), headers=headers, farewell=None)

    def chosen(self, asked: Asked) -> tuple[targets.Target, RunMeter]:
        """Return the target, and a meter of the caller. May block on the database."""
        known = catalogue.current()
        target = targets.target_of(known, asked.model, self.path)
        user = self.caller.user
        assert user is not None  # noqa: S101 - check_head
        assistant = assistants.choose(known, models.requester_of(self.caller)).assistant
        meter = RunMeter.without_run(
            user_id=user.pk,
            key_id=self.caller.key_id,
            account_id=builtin_account(ORIGIN).pk,
            assistant_id=assistant.id,
            known=known,
        )
        return target, meter

    async def answer_error(self, error: ProviderError) -> None:
        """Answer a provider's failure in the words for its class; its reason is logged."""
        logger.warning("/v1/%s failed: %s %s", self.path, error.code, error.reason)
        data = {} if error.retry_after is None else {"retry_after": error.retry_after}
        failure = Failure(code=error.code, text=str(error), data=data)
        body, headers = adapter.error_of(failure), failures.headers_of(failure)
        await self.answer(failures.status_of(failure), body, headers)


class Embeddings(PassedOn):
    """``POST /v1/embeddings``."""

    takes_json = True
    path = "embeddings"

    def read(self, body: bytes, content_type: str) -> Asked:
        return bodies.embeddings(body)


class Speech(PassedOn):
    """``POST /v1/audio/speech``."""

    takes_json = True
    path = "audio/speech"

    def read(self, body: bytes, content_type: str) -> Asked:
        return bodies.speech(body)


class Transcriptions(PassedOn):
    """``POST /v1/audio/transcriptions``."""

    path = "audio/transcriptions"

    def read(self, body: bytes, content_type: str) -> Asked:
        return bodies.recording(body, content_type)


class Translations(Transcriptions):
    """``POST /v1/audio/translations``."""

    path = "audio/translations"
