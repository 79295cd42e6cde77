"""The calls about notifications, and the files that make the web chat an app: W55 to W60."""

import json
import re
import struct
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.test import Client, RequestFactory
from django.utils import timezone
from django.utils.translation import override

from allowlist.models import AuditEntry, UnknownRequest
from channels_app.asgi.sessions import user_of_session
from channels_app.push import keys, presence
from channels_app.webchat import consumers, installed, push
from core.conversations import push_subscriptions
from core.database.transactions import in_thread
from core.models import ChannelAccount, Installation, PushMessage, PushSubscription, User
from tests import ROOT
from tests.channels_app.push.service import text_of
from tests.channels_app.webchat.conftest import HOST, at_the_page, eventually
from tests.redteam.matrix import BROWSER, ENDPOINT

pytestmark = pytest.mark.django_db(transaction=True)
JSON = "application/json"
STATIC = ROOT / "channels_app" / "static"
FIREFOX = "Mozilla/5.0 (Android 14; Mobile; rv:130.0) Gecko/130.0 Firefox/130.0"


def signed_in(user: User) -> Client:
    client = Client(HTTP_HOST=HOST)
    client.force_login(user)
    return client


@pytest.fixture
def page(ada: User) -> Client:
    return signed_in(ada)


def post(client: Client, path: str, body: Any, **more: Any) -> Any:
    return client.post(f"/chat/push/{path}", body, content_type=JSON, **more)


def test_w59_a_browser_is_stored_for_its_person_and_session(page: Client, ada: User) -> None:
    assert post(page, "subscriptions", BROWSER, HTTP_USER_AGENT=FIREFOX).json() == {"ok": True}
    row = PushSubscription.objects.get()
    assert (row.user, row.session_key) == (ada, page.session.session_key)
    assert (row.endpoint, row.browser) == (ENDPOINT["endpoint"], "Firefox on Android")
    post(page, "subscriptions", BROWSER)
    assert PushSubscription.objects.count() == 1
    post(page, "remove", ENDPOINT)
    assert PushSubscription.objects.count() == 0


def test_w59_the_browser_of_another_person_is_not_removed_and_changes_hands_whole(
    page: Client, ada: User, bob: User
) -> None:
    post(page, "subscriptions", BROWSER)
    row = PushSubscription.objects.get()
    PushMessage.objects.create(subscription=row, kind="answer", ref="x", expires_at=row.created_at)
    other = signed_in(bob)
    post(other, "remove", ENDPOINT)
    assert PushSubscription.objects.get().user == ada
    post(other, "subscriptions", BROWSER)
    assert PushSubscription.objects.get().user == bob
    assert not PushMessage.objects.exists()


@pytest.mark.parametrize("path", ["/sign-out", "/admin/logout/"])
def test_w59_signing_out_forgets_this_browser_and_no_other(
    page: Client, ada: User, path: str
) -> None:
    phone = signed_in(ada)
    post(page, "subscriptions", BROWSER)
    post(phone, "subscriptions", {**BROWSER, "endpoint": "https://push.example/send/phone"})
    page.post(path)
    assert [row.endpoint for row in PushSubscription.objects.all()] == [
        "https://push.example/send/phone"
    ]


def test_w59_a_new_password_keeps_the_notifications_of_the_browser_where_it_is_given(
    page: Client, ada: User, bob: User
) -> None:
    """Its session goes on under another key; those of other browsers end."""
    phone = signed_in(ada)
    post(page, "subscriptions", BROWSER)
    post(phone, "subscriptions", PHONE)
    new = "battery staple 9"
    given = {"old_password": "correct horse", "new_password1": new, "new_password2": new}
    assert page.post("/admin/password_change/", given).status_code == 302
    rows = push_subscriptions.of(ada)
    of_session = {each.endpoint: user_of_session(each.session_key) for each in rows}
    assert of_session == {ENDPOINT["endpoint"]: ada, PHONE["endpoint"]: None}
    User.objects.update(is_superuser=True)
    given = {"usable_password": "true", "password1": new, "password2": new}
    address = f"/admin/core/user/{bob.pk}/password/"
    assert page.post(address, given).status_code == 302
    here = PushSubscription.objects.get(endpoint=ENDPOINT["endpoint"])
    assert user_of_session(here.session_key) == ada


@pytest.mark.parametrize("path", ["/sign-out", "/admin/logout/"])
def test_w59_signing_out_ends_the_session_though_the_browser_cannot_be_forgotten(
    page: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def fail(**_: object) -> int:
        raise OperationalError("deadlock detected")

    post(page, "subscriptions", BROWSER)
    monkeypatch.setattr(push_subscriptions, "forget", fail)
    assert page.post(path).status_code in (200, 302)
    assert not Session.objects.exists()


PHONE = {**BROWSER, "endpoint": "https://push.example/send/phone"}


def listed(client: Client) -> list[Any]:
    found: list[Any] = client.get("/chat/push/browsers").json()["browsers"]
    return found


def test_w78_a_person_sees_their_browsers_and_removes_any(
    page: Client, ada: User, bob: User
) -> None:
    phone, other = signed_in(ada), signed_in(bob)
    post(page, "subscriptions", BROWSER, HTTP_USER_AGENT=FIREFOX)
    post(phone, "subscriptions", PHONE, HTTP_USER_AGENT="curl/8", HTTP_ACCEPT_LANGUAGE="de")
    assert [(each["name"], each["is_here"]) for each in listed(page)] == [
        ("A browser", False),
        ("Firefox on Android", True),
    ]
    german = page.get("/chat/push/browsers", HTTP_ACCEPT_LANGUAGE="de").json()["browsers"]
    assert [each["name"] for each in german] == ["Ein Browser", "Firefox auf Android"]
    assert listed(other) == []
    there = listed(page)[0]
    post(other, "remove", {"id": there["id"]})
    assert len(listed(page)) == 2
    assert post(page, "remove", {"id": there["id"]}).json() == {"ok": True}
    assert [each["is_here"] for each in listed(page)] == [True]
    assert post(page, "remove", {"id": True}).status_code == 400


def test_w78_a_removed_browser_stays_off_until_a_tap(page: Client, ada: User) -> None:
    phone = signed_in(ada)
    post(phone, "subscriptions", PHONE)
    post(page, "remove", {"id": listed(page)[0]["id"]})
    removed = {"ok": True, "removed": True}
    for by in ("page", "worker"):
        assert post(phone, "subscriptions", {**PHONE, "by": by}).json() == removed
    assert listed(page) == []
    post(page, "subscriptions", BROWSER)
    assert post(phone, "subscriptions", {**PHONE, "by": "worker"}).json() == removed
    assert post(page, "remove", ENDPOINT).json() == {"ok": True}
    post(phone, "subscriptions", {**PHONE, "by": "tap"})
    assert "removed" not in post(phone, "subscriptions", {**PHONE, "by": "page"}).json()
    assert len(listed(page)) == 1


def test_w78_a_changed_address_replaces_that_of_its_browser_alone(
    page: Client, ada: User, bob: User
) -> None:
    new = {**BROWSER, "endpoint": "https://push.example/send/new", "by": "worker"}
    assert post(page, "subscriptions", new).json()["removed"] is True
    post(page, "subscriptions", BROWSER)
    post(signed_in(ada), "subscriptions", PHONE)
    assert post(signed_in(bob), "subscriptions", new).json()["removed"] is True
    assert post(page, "subscriptions", new).json() == {"ok": True}
    found = set(PushSubscription.objects.values_list("user", "endpoint"))
    assert found == {(ada.pk, new["endpoint"]), (ada.pk, PHONE["endpoint"])}


def test_w78_the_service_worker_gets_a_form_token_and_none_posts_without_one(ada: User) -> None:
    strict = Client(HTTP_HOST=HOST, enforce_csrf_checks=True)
    strict.force_login(ada)
    token = strict.get("/chat/push/browsers").json()["token"]
    assert post(strict, "subscriptions", BROWSER).status_code == 403
    assert post(strict, "subscriptions", BROWSER, HTTP_X_CSRFTOKEN=token).status_code == 200


def test_w78_a_browser_in_the_list_has_its_number_its_name_and_its_day(page: Client) -> None:
    post(page, "subscriptions", BROWSER, HTTP_USER_AGENT=FIREFOX)
    row = PushSubscription.objects.get()
    since = row.created_at.isoformat()
    expected = {"id": row.pk, "name": "Firefox on Android", "since": since, "is_here": True}
    assert listed(page) == [expected]
    assert row.p256dh == KEYS["p256dh"]
    assert row.auth == KEYS["auth"]


def test_w78_a_browser_whose_session_has_ended_is_removed_too(page: Client, ada: User) -> None:
    phone = signed_in(ada)
    post(phone, "subscriptions", PHONE)
    Session.objects.filter(session_key=phone.session.session_key).delete()
    before = Session.objects.count()
    post(page, "subscriptions", BROWSER)
    there = next(each for each in listed(page) if not each["is_here"])
    post(page, "remove", {"id": there["id"]})
    assert len(listed(page)) == 1
    assert Session.objects.count() == before


@pytest.mark.parametrize("body", [{"id": "5"}, {"id": None}, {}, {"endpoint": 5}])
def test_w78_a_body_that_names_no_browser_is_refused(page: Client, body: Any) -> None:
    post(page, "subscriptions", BROWSER)
    answer = post(page, "remove", body)
    assert answer.status_code == 400
    assert answer.json()["error"] not in ("", "None")
    assert len(listed(page)) == 1


@pytest.mark.parametrize(
    ("name", "english", "german"),
    [
        ("Firefox on Linux", "Firefox on Linux", "Firefox auf Linux"),
        ("A browser on Windows", "A browser on Windows", "Ein Browser auf Windows"),
        ("A browser", "A browser", "Ein Browser"),
        ("", "A browser", "Ein Browser"),
        ("Opera", "Opera", "Opera"),
    ],
)
def test_w78_names_of_browsers_are_in_the_persons_language(
    name: str, english: str, german: str
) -> None:
    for language, expected in (("en", english), ("de", german)):
        with override(language):
            assert push.shown_name(name) == expected


def test_w59_the_end_of_a_session_without_a_person_forgets_nothing(
    page: Client, ada: User, rf: RequestFactory
) -> None:
    post(page, "subscriptions", BROWSER)
    request = rf.post("/sign-out")
    request.session = SessionStore(page.session.session_key)
    push.signed_out(request=request, user=None)
    push.signed_out(request=None, user=ada)
    request.session = SessionStore()
    push.signed_out(request=request, user=ada)
    assert PushSubscription.objects.count() == 1
    request.session = SessionStore(page.session.session_key)
    push.signed_out(request=request, user=ada)
    assert PushSubscription.objects.count() == 0


def test_w63_a_setting_that_stays_as_it_is_is_not_in_the_audit(page: Client, ada: User) -> None:
    assert post(page, "settings", {"hide_text": False}).json() == {"ok": True}
    assert not AuditEntry.objects.filter(action="setting.changed").exists()
    User.objects.create(username="other")
    post(page, "settings", {"hide_text": True})
    assert User.objects.filter(hide_push_text=True).get() == ada
    assert "true or false" in post(page, "settings", {"hide_text": "yes"}).json()["error"]


@pytest.mark.parametrize("path", ["key", "subscriptions", "remove", "settings"])
def test_w62_only_the_list_is_read_without_a_form_token(page: Client, path: str) -> None:
    assert page.get(f"/chat/push/{path}").status_code == 405
    assert page.post("/chat/push/browsers").status_code == 405


KEYS: Any = BROWSER["keys"]
# Only a whole point (RFC 8291, 3.1) can be encrypted for.
COMPRESSED = (
    ec.generate_private_key(ec.SECP256R1())
    .public_key()
    .public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"endpoint": "https://push.example/x"},
        {"endpoint": "http://push.example/x", "keys": KEYS},
        {"endpoint": "https://user:word@push.example/x", "keys": KEYS},
        {"endpoint": "https://push.example:99999/x", "keys": KEYS},
        {"endpoint": "https://push.example:9999/x", "keys": KEYS},
        {"endpoint": "https://push.example:0/x", "keys": KEYS},
        {"endpoint": "https://", "keys": KEYS},
        {"endpoint": "https://push.example/" + "x" * 1000, "keys": KEYS},
        {"endpoint": "https://push.example/\u00e9", "keys": KEYS},
        {"endpoint": 5, "keys": KEYS},
        {"endpoint": "https://push.example/x", "keys": []},
        {"endpoint": "https://push.example/x", "keys": {**KEYS, "auth": "AAAA"}},
        {"endpoint": "https://push.example/x", "keys": {**KEYS, "p256dh": "AAAA"}},
        {"endpoint": "https://push.example/x", "keys": {**KEYS, "p256dh": "B" + "A" * 86}},
        {"endpoint": "https://push.example/x", "keys": {**KEYS, "p256dh": KEYS["p256dh"] + "="}},
        {"endpoint": "https://push.example/x", "keys": {**KEYS, "p256dh": text_of(COMPRESSED)}},
        {"endpoint": "https://push.example/x", "keys": KEYS, "by": "somebody"},
    ],
)
def test_w62_a_body_that_is_no_browser_is_refused(page: Client, body: Any) -> None:
    answer = post(page, "subscriptions", body)
    assert answer.status_code == 400
    assert answer.json()["error"] not in ("", "None")
    assert not PushSubscription.objects.exists()


def test_w58_the_page_gets_the_public_key_only(page: Client, settings: Any) -> None:
    found = post(page, "key", {}).json()
    assert found == {"key": keys.public_key()}
    assert len(found["key"]) == 87
    settings.GATEWAY_ENCRYPTION_KEYS = ["another"]
    answer = post(page, "key", {})
    assert answer.status_code == 503
    assert "not available" in answer.json()["error"]
    assert Installation.objects.get(id=1).secrets


def test_w63_hiding_the_text_is_a_setting_of_the_person_and_audited(
    page: Client, ada: User
) -> None:
    assert post(page, "settings", {"hide_text": True}).json() == {"ok": True}
    assert get_user_model().objects.get(pk=ada.pk).hide_push_text
    entry = AuditEntry.objects.filter(action="setting.changed").get()
    assert entry.data == {"hide_push_text": [False, True]}
    assert post(page, "settings", {"hide_text": 1}).status_code == 400
    assert 'id="push-hide" type="checkbox" role="switch" checked' in page.get("/").content.decode()


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox on Android"),
        ("Mozilla/5.0 (X11; Linux x86_64) Chrome/141.0 Safari/537.36", "Chrome on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/141 Safari/537.36 Edg/141.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0) Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X) Chrome/1 Safari/1 OPR/1.0", "Opera on macOS"),
        (
            "Mozilla/5.0 (Linux; Android 14) SamsungBrowser/25.0 Chrome/121 Safari/537.36",
            "Samsung Internet on Android",
        ),
        ("Mozilla/5.0 (iPad; CPU OS 18_0 like Mac OS X) Safari/604.1", "Safari on iPad"),
        ("Mozilla/5.0 (X11; CrOS x86_64) Chrome/141 Safari/537.36", "Chrome on ChromeOS"),
        ("Mozilla/5.0 (Windows NT 10.0)", "A browser on Windows"),
        ("curl/8", "A browser"),
    ],
)
def test_browsers_have_names_as_people_say_them(agent: str, name: str) -> None:
    assert push.name_of(agent) == name


async def test_w60_a_page_is_visible_while_it_says_so_and_open(ada: User, bob: User) -> None:
    async def is_visible(*, wanted: bool) -> None:
        await eventually(lambda: presence.is_visible(ada.pk) is wanted)

    async with at_the_page(ada) as socket:
        await is_visible(wanted=False)
        await socket.say(type="visible", visible=True)
        await is_visible(wanted=True)
        assert not await in_thread(presence.is_visible, bob.pk)
        async with at_the_page(ada) as other:
            await other.say(type="visible", visible=True)
            await socket.say(type="visible", visible=False)
            await is_visible(wanted=True)
        await is_visible(wanted=False)
        await socket.say(type="visible", visible=True)
        await is_visible(wanted=True)
    await is_visible(wanted=False)


async def test_w60_a_page_that_says_nothing_any_more_is_not_visible(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its network is gone: the socket stays open for a minute, and the phone hears nothing."""

    async def is_visible(*, wanted: bool) -> None:
        await eventually(lambda: presence.is_visible(ada.pk) is wanted)

    async with at_the_page(ada) as socket:
        await socket.say(type="visible", visible=True)
        await is_visible(wanted=True)
        monkeypatch.setattr(consumers, "VISIBLE_SECONDS", 0.05)
        await socket.say(type="visible", visible=True)
        await is_visible(wanted=False)
        monkeypatch.setattr(consumers, "VISIBLE_SECONDS", 60.0)
        await socket.say(type="visible", visible=True)
        await is_visible(wanted=True)


def test_w64_the_button_of_a_notification_only_opens_the_decision(page: Client) -> None:
    row = unknown()
    link = f"/requests/{row.public_id}?choice=deny"
    opened = page.get(link).content.decode()
    assert 'value="deny" autofocus' in opened
    assert opened.count("autofocus") == 1
    row.refresh_from_db()
    assert row.state == UnknownRequest.State.PENDING
    page.post(link, {"verdict": "deny"})
    row.refresh_from_db()
    assert row.state == UnknownRequest.State.DENIED


def test_w64_the_page_of_a_notification_decides_for_a_signed_in_owner_only(bob: User) -> None:
    """The notification may be that of the person who used the browser before."""
    row = unknown()
    link = f"/requests/{row.public_id}?choice=approve"
    stranger, member = Client(HTTP_HOST=HOST), signed_in(bob)
    for send in (stranger.get, stranger.post):
        answer = send(link, {"verdict": "approve"} if send == stranger.post else None)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/sign-in?next=/requests/")
        assert "choice" in answer["Location"]
    assert member.get(link).status_code == 404
    assert member.post(link, {"verdict": "approve"}).status_code == 404
    row.refresh_from_db()
    assert row.state == UnknownRequest.State.PENDING


def unknown() -> UnknownRequest:
    account = ChannelAccount.objects.create(channel="telegram", name="main")
    now = timezone.now()
    times = {"first_seen_at": now, "last_seen_at": now, "expires_at": now + timedelta(days=1)}
    return UnknownRequest.objects.create(account=account, kind="im", sender="7", **times)


def test_w55_the_manifest_is_that_of_an_app(client: Client) -> None:
    answer = client.get("/manifest.webmanifest")
    assert answer["Content-Type"] == "application/manifest+json"
    found = json.loads(answer.content)
    assert (found["id"], found["start_url"], found["scope"]) == ("/", "/", "/")
    assert found["display"] == "standalone"
    shapes = {(icon["sizes"], icon["purpose"]) for icon in found["icons"]}
    assert shapes == {(f"{n}x{n}", kind) for n in (192, 512) for kind in ("any", "maskable")}
    for icon in found["icons"]:
        data = (STATIC / icon["src"].removeprefix("/static/")).read_bytes()
        width, height = struct.unpack(">II", data[16:24])
        assert f"{width}x{height}" == icon["sizes"]
    for shortcut in found["shortcuts"]:
        assert client.get(shortcut["url"]).status_code in (200, 302)
    share = found["share_target"]
    assert (share["action"], share["method"]) == ("/share", "POST")
    assert share["enctype"] == "multipart/form-data"


def test_w55_the_colours_are_those_of_the_pages() -> None:
    css = (STATIC / "latchkey" / "base.css").read_text(encoding="utf-8")
    paper = re.search(r"--paper: light-dark\((#\w+), (#\w+)\)", css)
    assert paper is not None
    assert paper.groups() == (installed.LIGHT, installed.DARK)
    base = (ROOT / "templates" / "webchat" / "base.html").read_text(encoding="utf-8")
    assert set(re.findall(r'name="theme-color"[^>]*content="(#\w+)"', base)) == set(paper.groups())


def test_w56_the_service_worker_is_not_cached_and_keeps_the_files_of_the_shell(
    client: Client,
) -> None:
    answer = client.get("/sw.js")
    assert answer["Content-Type"] == "text/javascript; charset=utf-8"
    assert answer["Cache-Control"] == "no-store"
    head, _, rest = answer.content.decode().partition(";\n")
    given = json.loads(head.removeprefix("const GIVEN = "))
    assert rest.startswith("// The service worker")
    assert len(given["version"]) == 16
    assert given["shell"] == "/offline"
    for address in given["files"]:
        assert address.startswith("/static/latchkey/")
        assert (STATIC / address.removeprefix("/static/")).is_file()
    shell = client.get(given["shell"]).content.decode()
    named = set(re.findall(r'(?:href|src)="(/static/[^"]+\.(?:js|css))"', shell))
    assert named <= set(given["files"]), "the shell needs files that are not kept"


def test_w56_the_shell_says_nothing_of_anybody(page: Client, ada: User, client: Client) -> None:
    mine, nobodys = page.get("/offline"), client.get("/offline")
    assert mine.content == nobodys.content
    text = mine.content.decode()
    assert "Ada" not in text
    assert "csrfmiddlewaretoken" not in text
    assert "You are offline" in text
    assert f'data-person="{ada.pk}"' not in text


def test_w57_without_a_service_worker_nothing_shared_is_read(client: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/share", {"text": "x"})
    assert (answer.status_code, answer["Location"]) == (303, "/?shared=lost")
    assert client.get("/share").status_code == 405
