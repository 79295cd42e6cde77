"""Files over HTTP: upload, one's own files, and signed links ([L4]). Channels consumers.

POST /files?name=…       the raw bytes; cookie (from own pages only) or key → id
GET  /files/<id>         an own file, signed in or with a key; otherwise 404; also DELETE
GET  /files/out?token=…  anyone with the link; changed or expired 403, but for its own person who
                         is signed in; revoked 410
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from channels.exceptions import StopConsumer
from django.conf import settings
from django.utils import timezone, translation
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from allowlist import own_actions
from allowlist.models import ApiKey
from channels_app.asgi import http, quota, throttling
from channels_app.asgi.authentication import caller_of, count_address
from channels_app.asgi.bodies import Body
from channels_app.asgi.consumer import Endpoint
from channels_app.asgi.http import Headers, Receive, RefusedError, Request, Scope
from channels_app.webchat import access
from core.database.transactions import atomic_write, in_thread
from core.files import storage
from core.lib import interface_language
from core.lib.ids import is_public_id
from core.models import StoredFile, User
from core.plugins import slide_show

UPLOAD_SECONDS = 600.0
TOO_LARGE = gettext_lazy("Files may have up to {count} MB.")
BLOCK_BYTES = 256 * 1024
# Types that a browser may display; the others are downloaded. HTML only in a sandbox.
SHOWN = storage.PICTURES.keys() | {"application/pdf", "text/plain", "text/html"}
# No script runs, and so none asks for an address, opens a window or sends a form; without scripts
# a sandbox also ignores a page's wish to lead elsewhere (<meta http-equiv="refresh">).
PAGE = (
    "{sandbox}; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "media-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
STILL = PAGE.format(sandbox="sandbox")
ONE_RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})")
MEDIA_TYPE = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+")
NOTHING = "sandbox; default-src 'none'; base-uri 'none'; frame-ancestors 'none'"


class Upload(Endpoint):
    """``POST /files?name=``: take a file; 201 with its id, which a message then names."""

    methods = ("POST",)
    user: User
    path: Path
    is_stored = False

    def body_of(self, receive: Receive) -> Body:
        return Body(
            receive,
            limit=settings.DOCUMENT_MEGABYTES * storage.MEGABYTE,
            seconds=UPLOAD_SECONDS,
            too_large=format_lazy(TOO_LARGE, count=settings.DOCUMENT_MEGABYTES),
            too_slow=gettext_lazy("The file came too slowly."),
        )

    async def check_head(self) -> None:
        self.user = await in_thread(authenticated_user, self.request, writes=True)
        self.request.require_bytes()

    async def receive_messages(self) -> None:
        """Receive the body into a file, which is deleted unless all of it comes."""
        # An upload in progress does not count for the quota yet.
        with throttling.streams.one(
            user_id=f"upload:{self.user.id}", limit=settings.MAX_STREAMS_PER_USER
        ):
            self.incoming.check_declared(self.request)
            size = self.request.declared_length
            await in_thread(quota.check, user_id=self.user.id, size=size)
            try:
                self.path = await asyncio.to_thread(storage.new_path)
                try:
                    await super().receive_messages()
                finally:
                    if not self.is_stored:
                        self.path.unlink(missing_ok=True)
            except storage.NotStoredError as error:
                raise RefusedError(507, storage.NOT_STORED) from error

    async def http_request(self, message: Scope) -> None:
        """Store a part; answer after the last. Raises RefusedError 400, 413, NotStoredError."""
        await asyncio.to_thread(storage.append, self.path, message.get("body", b""))
        if message.get("more_body"):
            return
        if not self.path.stat().st_size:
            raise RefusedError(400, gettext_lazy("The file is empty."))
        stored = await in_thread(received, self.path, self.user, self.request.query("name"))
        self.is_stored = True
        body = {"ok": True, "id": stored.public_id, "name": stored.name, "size": stored.size}
        await self.answer(201, {**body, "type": stored.content_type})
        raise StopConsumer

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request, and close the connection: the rest of the file may come."""
        headers = {**error.headers, "Connection": "close"}
        with translation.override(language_of(self.request)):
            await self.answer(error.status, http.error_body(error.status, str(error)), headers)


def language_of(request: Request) -> str:
    """Return the browser's language; English for a program with a key."""
    header = "" if request.header("authorization") else request.header("accept-language")
    return interface_language.of_header(header)


def received(path: Path, user: User, name: str) -> StoredFile:
    """Return the stored file. Raises RefusedError 413 (quota), and NotStoredError."""
    with quota.needed():
        return storage.receive(path=path, user=user, name=name)


def authenticated_user(request: Request, *, writes: bool) -> User:
    """Authenticate by cookie or key and count one request. RefusedError 401, 403, 429.

    Reading with a cookie is not counted: a page shows many pictures.
    """
    header = request.header("authorization")
    key = header[7:].strip() if header[:7].lower() == "bearer " else request.header("x-api-key")
    if key:
        holder = caller_of(token=key, scope=ApiKey.Scope.CHAT, address=request.address).user
        if holder is None:
            raise RefusedError(403, "A bridge sends files as data URLs.")
        return holder
    session_key = access.cookie_of({"cookie": request.header("cookie")})
    origin, host = request.header("origin"), request.header("host")
    if session_key and writes and not access.is_ours(origin=origin, host=host):
        raise RefusedError(
            403, gettext_lazy("This request did not come from a page of this gateway.")
        )
    principal = access.by_session(session_key) if session_key else None
    if principal is None or principal.user is None:
        raise RefusedError(401, gettext_lazy("Sign in first."))
    if writes:
        throttling.people.check(subject=principal.subject, limit=settings.RATE_PER_MINUTE_USER)
    return principal.user


class FileEndpoint(Endpoint):
    """An endpoint that answers a file, and refuses in a line of text: people open its address."""

    async def refuse(self, error: RefusedError) -> None:
        headers = {"Content-Security-Policy": NOTHING, **error.headers}
        with translation.override(language_of(self.request)):
            await self.answer_text(error.status, f"{error}\n", headers)

    async def deliver(self, file: StoredFile, *, subject: str) -> None:
        """Send the bytes, or the requested part. Raises RefusedError 404 when they are
        gone, 416 for a part that the file does not have, 429 for too many open streams of
        ``subject``."""
        with throttling.streams.one(user_id=subject, limit=settings.MAX_STREAMS_PER_USER):
            path = storage.path_of(file)
            if not await asyncio.to_thread(path.is_file):
                raise RefusedError(404, gettext_lazy("The file was deleted."))
            asked = part_of(self.request, file.size)
            part = asked or range(file.size)
            acts = await asyncio.to_thread(is_slide_show, file, path)
            headers = {**headers_of(file, acts=acts), "Content-Length": str(len(part))}
            if asked:
                headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{file.size}"
            await self.send_headers(status=206 if asked else 200, headers=http.encoded(headers))
            if self.request.method != "HEAD":
                async for block in blocks(path, part):
                    if not await http.write(self.send, block, more=True):
                        return
            await http.write(self.send, b"", more=False)


class Own(FileEndpoint):
    """``/files/<id>``: one's own file; DELETE revokes it, and its bytes are removed soon."""

    methods = ("GET", "HEAD", "DELETE")
    user: User

    async def check_head(self) -> None:
        writes = self.request.method == "DELETE"
        self.user = await in_thread(authenticated_user, self.request, writes=writes)

    async def handle(self, body: bytes) -> None:
        name = self.scope["url_route"]["kwargs"]["file_id"]
        file = await in_thread(own_file, self.user, name) if is_public_id(name) else None
        if file is None:
            raise RefusedError(404, gettext_lazy("There is no such file."))
        if self.request.method == "DELETE":
            await in_thread(storage.revoke, file)
            await self.answer(200, {"ok": True, "status": 200})
        else:
            await self.deliver(file, subject=f"file:{self.user.id}")


def own_file(user: User, name: str) -> StoredFile | None:
    own_ones = StoredFile.objects.filter(user_id=user.id, revoked_at__isnull=True)
    return own_ones.filter(public_id=name).first()


class Out(FileEndpoint):
    """``/files/out?token=``: the file of a signed link; each GET is counted."""

    methods = ("GET", "HEAD")

    async def check_head(self) -> None:
        await in_thread(count_address, self.request.address)

    async def handle(self, body: bytes) -> None:
        """Answer the file. Raises RefusedError 403, 404 or 410."""
        try:
            file = await in_thread(storage.opened, self.request.query("token"))
        except storage.BadLinkError as error:
            own = await in_thread(own_behind, self.request)
            if own is not None:
                await self.deliver(own, subject=f"file:{own.user_id}")
                return
            raise RefusedError(
                403, format_lazy("{} {}", error.args[0], gettext_lazy("Ask for the file again."))
            ) from error
        if file is None:
            raise RefusedError(404, gettext_lazy("The file was deleted."))
        if file.revoked_at is not None:
            raise RefusedError(410, gettext_lazy("This link was revoked."))
        if self.request.method == "GET":
            await in_thread(count_open, file, self.request.address)
        await self.deliver(file, subject=f"link:{throttling.network_of(self.request.address)}")


def own_behind(request: Request) -> StoredFile | None:
    """Return the person's own file that a link names, valid or not: old answers keep theirs."""
    name = storage.named_by(f"/files/out?token={request.query('token')}")
    with suppress(RefusedError):
        return own_file(authenticated_user(request, writes=False), name)
    return None


def count_open(file: StoredFile, address: str) -> None:
    """Count one opening of a link, in the row and in the audit."""
    with atomic_write():
        storage.count_open(file)
        own_actions.file_opened(file=file, address=address, now=timezone.now())


def part_of(request: Request, size: int) -> range | None:
    """Parse the Range header (RFC 9110, 14.2) of a request for a file of ``size`` bytes; None for
    one without a part.

    Multiple ranges, unknown units and invalid headers get the whole file, and so does ``If-Range``:
    no file has a validator. Raises RefusedError 416.
    """
    found = ONE_RANGE.fullmatch(request.header("range"))
    if found is None or request.method != "GET" or request.header("if-range"):
        return None
    first, last = found["first"], found["last"]
    if first:
        part = range(int(first), min(int(last) + 1, size) if last else size)
        if last and int(last) < int(first):
            return None
    elif last:
        part = range(max(0, size - int(last)), size)
    else:
        return None
    if not part:
        headers = {"Content-Range": f"bytes */{size}"}
        raise RefusedError(416, gettext_lazy("The file has no such part."), headers=headers)
    return part


def is_slide_show(file: StoredFile, path: Path) -> bool:
    """Return whether ``file`` is a generated deck, whose one script may run. Reads it."""
    if file.origin != storage.MADE or not file.content_type.startswith("text/html"):
        return False
    return file.size <= slide_show.MOST_BYTES and slide_show.is_slide_show(path.read_bytes())


def policy_of(kind: str, *, acts: bool) -> str:
    """Return the CSP of a file of this type; ``acts``: its script is ours."""
    if kind != "text/html":
        return NOTHING
    if not acts:
        return STILL
    moving = PAGE.format(sandbox="sandbox allow-scripts")
    return f"{moving}; script-src {slide_show.script_source()}"


def headers_of(file: StoredFile, *, acts: bool = False) -> Headers:
    """Return headers that keep untrusted files from acting on the gateway's origin."""
    kind = file.content_type.partition(";")[0].strip().lower()
    kind = kind if MEDIA_TYPE.fullmatch(kind) else "application/octet-stream"
    shown = kind in SHOWN
    text = "; charset=utf-8" if kind.startswith("text/") else ""
    where = "inline" if shown else "attachment"
    name = quote(file.name, safe="")
    plain = "".join(c if c.isascii() and (c.isalnum() or c in " ._-") else "_" for c in file.name)
    return {
        "Content-Type": kind + text,
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"{where}; filename=\"{plain}\"; filename*=UTF-8''{name}",
        "Content-Security-Policy": policy_of(kind, acts=acts),
        "X-DNS-Prefetch-Control": "off",
        "Cross-Origin-Opener-Policy": "same-origin",
        "X-Robots-Tag": "noindex",
        "Cache-Control": "private, no-store",
    }


async def blocks(path: Path, part: range) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a range, read in a thread."""
    left = len(part)
    with path.open("rb") as file:
        file.seek(part.start)
        while block := await asyncio.to_thread(file.read, min(BLOCK_BYTES, left)):
            left -= len(block)
            yield block
