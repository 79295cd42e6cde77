"""The base of the Channels HTTP consumers: the head of a request, its body, errors and answers."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, ClassVar

from channels.consumer import get_handler_name
from channels.generic.http import AsyncHttpConsumer

from channels_app.asgi import event_stream, http
from channels_app.asgi.acceptance import admit
from channels_app.asgi.authentication import authenticate
from channels_app.asgi.bodies import Body
from channels_app.asgi.http import (
    ClientGoneError,
    Headers,
    Receive,
    RefusedError,
    Request,
    Scope,
    Send,
)
from channels_app.asgi.principal import Principal


class Endpoint(AsyncHttpConsumer):  # type: ignore[misc]  # channels has no types
    """One endpoint; an instance serves one request.

    A subclass says in ``methods`` which ones it has (empty: any but TRACE), in ``key_scope`` which
    scope an API key needs (empty: it has a check of its own, or none), in ``takes_json`` that its
    body is a JSON object; it overrides ``handle(body)``, and ``refuse`` for an error shape of its
    own. RefusedError may be raised anywhere.
    """

    methods: ClassVar[tuple[str, ...]] = ()
    key_scope: ClassVar[str] = ""
    takes_json: ClassVar[bool] = False
    # A name that no setting has: no channel layer, no subscription for each request.
    channel_layer_alias = "none"

    request: Request
    incoming: Body
    caller: Principal  # of an endpoint with a ``key_scope``
    has_begun = False  # to answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the head before the body: a refused request gets no ``100 Continue``."""
        self.scope, self.base_send = scope, send
        self.request, self.incoming = Request(scope), self.body_of(receive)
        try:
            await admit(self.request, methods=self.methods)
            await self.check_head()
            if self.takes_json:
                self.request.require_json()
            if self.request.method == "POST":
                self.incoming.check_head(self.request)
            await self.receive_messages()
        except ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001 - refusal_of logs what is not expected
            refusal = http.refusal_of(error)
            if not self.has_begun:
                await self.refuse(refusal)

    def body_of(self, receive: Receive) -> Body:
        return Body(receive)

    async def check_head(self) -> None:
        """Authenticate the request. Raises RefusedError 401, 403 or 429."""
        if self.key_scope:
            self.caller = await authenticate(self.request, scope=self.key_scope)

    async def receive_messages(self) -> None:
        """Let Channels dispatch what the client sends."""
        await super().__call__(self.scope, self.incoming.receive, self.base_send)

    async def dispatch(self, message: Scope) -> None:
        """Call the handler of a message; Channels would go through a database thread each time."""
        await getattr(self, get_handler_name(message))(message)

    async def send(self, message: Mapping[str, Any]) -> None:
        self.has_begun = True
        await super().send(message)

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request."""
        await self.answer(error.status, http.refused_body(error), error.headers)

    async def answer(
        self, status: int, body: Mapping[str, Any], headers: Headers | None = None
    ) -> None:
        """Send ``body`` as JSON."""
        await http.answer(self.send, status, body, headers)

    async def answer_text(self, status: int, text: str, headers: Headers | None = None) -> None:
        """Send ``text`` unchanged."""
        kind = "text/plain; charset=utf-8"
        await http.answer_bytes(self.send, status, text.encode(), kind, headers)

    async def stream(
        self,
        blocks: AsyncGenerator[bytes, None],
        *,
        headers: Headers,
        farewell: bytes | None,
        ended: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> bool:
        """Send ``blocks`` as an event stream; False when the client left first, or when ``ended``
        returned.

        ``farewell`` is the last event when this process is stopped; None cuts the body off.
        """
        return await event_stream.send_stream(
            self.incoming, self.send, blocks, headers=headers, farewell=farewell, ended=ended
        )
