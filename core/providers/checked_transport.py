"""Requests of packages that send by ``httpx2``, sent by our own client: to allowed addresses only.

No redirect is followed, and no body comes compressed: its bytes are counted as they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import httpx2
from yarl import URL

from core.providers import addresses

# Headers of a request that our client makes itself.
OURS = {"host", "content-length", "accept-encoding", "transfer-encoding", "connection"}


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends requests by an ``aiohttp`` client that connects to allowed addresses only."""

    def __init__(self, allowed: addresses.Allowed) -> None:
        self._allowed = allowed
        self._session: aiohttp.ClientSession | None = None

    async def answer_to(self, request: httpx2.Request, **own: str) -> aiohttp.ClientResponse:
        """Return the response to a request, whose body is still to be read. ``own``: headers in
        place of the package's. Raises RefusedAddressError, httpx2.TransportError.
        """
        if self._session is None or self._session.closed:
            self._session = addresses.session(self._allowed)
        own = {"Accept-Encoding": "identity", **own}
        ours = OURS | {name.lower() for name in own}
        given = [(k, v) for k, v in request.headers.items() if k.lower() not in ours]
        try:
            return await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                data=await request.aread(),
                headers=[*given, *own.items()],
                allow_redirects=False,
            )
        except aiohttp.ClientConnectorError as error:
            raise httpx2.ConnectError(type(error).__name__) from error
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("no connection") from error
        except (aiohttp.ClientError, OSError) as error:
            raise httpx2.ReadError(type(error).__name__) from error

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


@contextmanager
def as_read_errors() -> Iterator[None]:
    """Raise httpx2.ReadError for a body that breaks off."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.ReadError(type(error).__name__) from error


class CheckedBody(httpx2.AsyncByteStream):
    """The body of a response; reading it is within :func:`as_read_errors`."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def aclose(self) -> None:
        """Give the connection back, or close it when the body was not read to its end."""
        if self._answer.content.at_eof():
            self._answer.release()
        else:
            self._answer.close()
