"""Async Django views for programs: a handler without middleware, and the decorator of a view."""

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from io import BytesIO
from typing import Any

import orjson
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpResponse

from channels_app.asgi import http
from channels_app.asgi.acceptance import admit
from channels_app.asgi.bodies import Body
from channels_app.asgi.http import ClientGoneError, Headers, Receive, Request, Scope


class EndpointRequest(ASGIRequest):
    """A request whose body the view reads itself, after checking the head."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, BytesIO())  # to Django the body is empty
        self.head = Request(scope)
        self._receive = receive

    async def read_body(self, limit: int | None = None) -> bytes:
        """Read the whole body. Raises RefusedError 408, 413 or 415, ClientGoneError.

        ``limit`` is in bytes; MAX_BODY_BYTES without it.
        """
        body = Body(self._receive, limit=limit)
        body.check_head(self.head)
        return await body.read()


class ViewHandler(ASGIHandler):
    """Django's handler for the views of this module: it makes the request, finds and calls the
    view, and sends its response.

    Programs have no session, no cookie and no form: no middleware runs. A client that disconnects
    does not cancel its request. The signals of a request are not sent: Django's own handlers, which
    take a thread each time, look after connections of threads that these views do not use.
    """

    request_class = EndpointRequest

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's
        """Load none."""
        respond = self._get_response_async  # type: ignore[attr-defined]
        self._middleware_chain = convert_exception_to_response(respond)
        self._view_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        respond: Any = self._middleware_chain
        request, refusal = self.create_request(scope, receive)
        await self.send_response(refusal or await respond(request), send)


View = Callable[..., Coroutine[Any, Any, HttpResponse]]


def endpoint(*methods: str) -> Callable[[View], View]:
    """Decorate an async view: other methods get a 405, and exceptions are answered in JSON."""

    def decorate(view: View) -> View:
        @wraps(view)
        async def framed(request: EndpointRequest, **named: Any) -> HttpResponse:
            try:
                await admit(request.head, methods=methods)
                return await view(request, **named)
            except ClientGoneError:
                return json_response(400, {})  # the client has left
            except Exception as error:  # noqa: BLE001 - refusal_of logs what is not expected
                refusal = http.refusal_of(error)
                return json_response(refusal.status, http.refused_body(refusal), refusal.headers)

        framed.methods = methods  # type: ignore[attr-defined]
        return framed

    return decorate


def json_response(
    status: int, body: Mapping[str, Any], headers: Headers | None = None
) -> HttpResponse:
    """Return ``body`` as JSON, with the headers of every response."""
    return response(status, orjson.dumps(body), "application/json", headers)


def response(
    status: int, data: bytes, content_type: str, headers: Headers | None = None
) -> HttpResponse:
    """Return a complete body with the headers of every response."""
    every = http.every_header(http.body_headers(status, data, content_type, headers or {}))
    return HttpResponse(data, status=status, headers=every)
