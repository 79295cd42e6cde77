"""[L4] Signed links: expiring, revocable, counted, sandboxed; one's own files; uploads."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.test import Client
from pytest_django import Settings

from allowlist import audit, keys
from allowlist.models import AuditEntry
from core.database import transactions
from core.files import storage
from core.models import StoredFile, User
from gateway_project.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)
communicator: Any = ApplicationCommunicator
Answer = tuple[int, dict[str, str], bytes]
Ask = Callable[..., Awaitable[Answer]]


async def ask(
    path: str, query: str = "", *, method: str = "GET", body: bytes = b"", **more: str
) -> Answer:
    """Send one request to the gateway; return status, headers, body."""
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1:8000"), *headers],
        "client": ("127.0.0.9", 1),
    }
    it: Any = communicator(application, scope)
    for start in range(0, max(1, len(body)), 70_000):
        piece = body[start : start + 70_000]
        more_body = start + 70_000 < len(body)
        await it.send_input({"type": "http.request", "body": piece, "more_body": more_body})
    begin = await it.receive_output(30)
    found = b""
    while True:
        part = await it.receive_output(30)
        found += part.get("body", b"")
        if not part.get("more_body"):
            break
    await it.wait(30)
    names = {name.decode(): value.decode() for name, value in begin["headers"]}
    return begin["status"], names, found


@pytest.fixture
def ada(transactional_db: None) -> Any:
    del transactional_db
    yield User.objects.create(username="ada")
    transactions.close_pool()


@pytest.fixture
def page(ada: User) -> StoredFile:
    return storage.keep(user=ada, name="ré sumé.html", content=b"<h1>Hi</h1>", origin=storage.MADE)


def query_of(file: StoredFile, **more: Any) -> str:
    return storage.link(file, **more).partition("?")[2]


async def test_l4_a_link_opens_the_file_and_is_counted(page: StoredFile) -> None:
    status, headers, body = await ask("/files/out", query_of(page))
    assert (status, body) == (200, b"<h1>Hi</h1>")
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-security-policy"].startswith("sandbox;")
    assert "allow-same-origin" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"].startswith('inline; filename="r_ sum_.html"')
    assert "set-cookie" not in headers
    assert (await ask("/files/out", query_of(page), method="HEAD"))[0] == 200
    await transactions.in_thread(page.refresh_from_db)
    assert page.opens == 1


async def test_the_name_of_a_file_is_no_path_in_a_header(ada: User) -> None:
    """A slash has to be encoded there, too (RFC 8187)."""
    file = await transactions.in_thread(
        storage.keep, user=ada, name="../../a'b.txt", content=b"x", origin=storage.MADE
    )
    _, headers, _ = await ask("/files/out", query_of(file))
    assert headers["content-disposition"].endswith("filename*=UTF-8''..%2F..%2Fa%27b.txt")


async def test_an_opened_link_is_in_the_audit_once_a_day(page: StoredFile) -> None:
    for _ in range(3):
        assert (await ask("/files/out", query_of(page)))[0] == 200
    await transactions.in_thread(page.refresh_from_db)
    assert page.opens == 3
    (row,) = await transactions.in_thread(list, AuditEntry.objects.filter(action="file.opened"))
    assert row.subject == f"file:{page.public_id}"
    assert row.data == {"address": "127.0.0.9", "of": f"user:{page.user_id}"}
    assert (await transactions.in_thread(audit.check)).broken is None


async def test_l4_active_content_is_downloaded(ada: User) -> None:
    file = await transactions.in_thread(
        storage.keep, user=ada, name="x.svg", content=b"<svg onload=alert(1)>"
    )
    _, headers, _ = await ask("/files/out", query_of(file))
    assert headers["content-disposition"].startswith("attachment;")
    assert headers["content-security-policy"].startswith("sandbox;")


async def test_l4_changed_expired_and_foreign_tokens_are_403(page: StoredFile, ada: User) -> None:
    query = query_of(page)
    other = await transactions.in_thread(storage.keep, user=ada, name="b.txt", content=b"b")
    swapped = query.replace(page.public_id, other.public_id)
    for bad in (
        query[:-1] + ("A" if query[-1] != "A" else "B"),
        swapped,
        "token=",
        "",
        "token=../../etc",
    ):
        assert (await ask("/files/out", bad))[0] == 403
    old = query_of(page, now=time.time() - 8 * storage.DAY_SECONDS)
    assert (await ask("/files/out", old))[0] == 403
    await transactions.in_thread(page.refresh_from_db)
    assert page.opens == 0


async def test_l4_an_expired_link_opens_for_its_own_person(page: StoredFile, ada: User) -> None:
    """The pictures of an old chat, and its links, stay."""
    eve = await transactions.in_thread(lambda: User.objects.create(username="eve"))
    old = query_of(page, now=time.time() - 8 * storage.DAY_SECONDS)
    ours, hers = [await transactions.in_thread(cookie, each) for each in (ada, eve)]
    assert (await ask("/files/out", old, cookie=ours))[::2] == (200, b"<h1>Hi</h1>")
    assert (await ask("/files/out", old, cookie=hers))[0] == 403
    assert await transactions.in_thread(storage.revoke, page)
    assert (await ask("/files/out", old, cookie=ours))[0] == 403


async def test_l4_a_revoked_link_is_410_and_a_deleted_file_404(page: StoredFile) -> None:
    query = query_of(page)
    assert await transactions.in_thread(storage.revoke, page)
    assert (await ask("/files/out", query))[0] == 410
    await transactions.in_thread(page.delete)
    assert (await ask("/files/out", query))[0] == 404


@pytest.mark.parametrize(
    "path", ["/files/out/../../x", "/files/%2e%2e/x", "/files/..", "/files/" + "a" * 22]
)
async def test_l4_paths_lead_nowhere(path: str, page: StoredFile) -> None:
    del page
    assert (await ask(path))[0] in {401, 404}


def kept() -> set[str]:
    """Return every file below our folder."""
    return {str(path) for path in storage.folder().rglob("*") if path.is_file()}


def cookie(user: User) -> str:
    browser = Client()
    browser.force_login(user)
    return "; ".join(f"{name}={each.value}" for name, each in browser.cookies.items())


async def test_l4_another_persons_file_does_not_exist(page: StoredFile, ada: User) -> None:
    eve = await transactions.in_thread(lambda: User.objects.create(username="eve"))
    own = f"/files/{page.public_id}"
    assert (await ask(own, cookie=await transactions.in_thread(cookie, ada)))[0] == 200
    assert (await ask(own, cookie=await transactions.in_thread(cookie, eve)))[0] == 404
    assert (await ask(own))[0] == 401


async def test_l5_an_upload_is_kept_for_its_person(ada: User, settings: Settings) -> None:
    signed_in = await transactions.in_thread(cookie, ada)
    ours = {"cookie": signed_in, "origin": settings.GATEWAY_URL}
    content = b"%PDF-1.7 " + b"x" * 300_000
    status, _, body = await ask("/files", "name=a%20b.pdf", method="POST", body=content, **ours)
    assert status == 201
    file = await transactions.in_thread(StoredFile.objects.get)
    assert file.public_id.encode() in body
    assert (file.name, file.size, file.user_id) == ("a b.pdf", len(content), ada.id)
    assert await transactions.in_thread(storage.read, file) == content


async def test_l5_unauthenticated_cross_site_and_oversized_uploads_are_refused(
    ada: User, settings: Settings
) -> None:
    signed_in = await transactions.in_thread(cookie, ada)
    ours = {"cookie": signed_in, "origin": settings.GATEWAY_URL}
    before = kept()
    assert (await ask("/files", method="POST", body=b"x", origin=settings.GATEWAY_URL))[0] == 401
    evil = {"cookie": signed_in, "origin": "https://evil.example"}
    assert (await ask("/files", method="POST", body=b"x", **evil))[0] == 403
    assert (await ask("/files", method="POST", body=b"", **ours))[0] == 400
    settings.DOCUMENT_MEGABYTES = 1
    giant = {**ours, "content_length": str(200 * 1024 * 1024)}
    assert (await ask("/files", method="POST", body=b"x", **giant))[0] == 413
    assert (await ask("/files", method="POST", body=b"x" * 1_100_000, **ours))[0] == 413
    assert kept() == before
    assert not await transactions.in_thread(StoredFile.objects.exists)


async def test_l5_a_key_uploads_too(ada: User) -> None:
    key = (await transactions.in_thread(keys.create, name="k", user=ada, scopes=["chat"]))[1]
    status, _, _ = await ask(
        "/files", "name=a.txt", method="POST", body=b"hi", authorization=f"Bearer {key}"
    )
    assert status == 201
