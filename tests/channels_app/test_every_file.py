"""[C6] The model's input for every kind of file at every endpoint that takes files: one table.

The kind follows from the content of a file; an unreadable one does not affect the others.
"""

import base64
import io
import json
import zipfile
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from django.utils import timezone
from PIL import Image

from channels_app.asgi import chat_messages
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.bridge import fields as bridge
from channels_app.client_api import models
from channels_app.client_api.openai import fields as openai
from channels_app.client_api.ui_stream import fields as ui
from channels_app.http_api import fields as http
from channels_app.intake import inbound
from channels_app.memory.channel import PLATFORM
from channels_app.memory.channel import say as say_on_platform
from channels_app.webchat import frames
from channels_app.worker.media import UNOPENED
from channels_app.worker.runner import Runner
from core.conversations import inbox
from core.database import transactions
from core.documents.sniffing import media_type
from core.files import storage
from core.lib.ttl_cache import TtlCache
from core.media import transcribe
from core.media.picture import scaled
from core.models import Run, StoredFile, User
from core.providers import catalogue, sight
from core.providers import registry as providers
from core.providers.base import Delta, ModelRequest, ProviderError
from core.providers.catalogue import ModelInfo
from core.providers.scripted import Scripted
from tests.channels_app.running import memory_account, until
from tests.core.jobs_worker import papers
from tests.core.providers.chains import MODEL

pytestmark = pytest.mark.django_db(transaction=True)
WIDE, HIGH = 400, 200


def picture(form: str, *, turned: bool = False) -> bytes:
    """Return a picture, twice as wide as high; ``turned``: EXIF says that it lies on its side."""
    out = io.BytesIO()
    made = Image.new("RGB", (WIDE, HIGH), "red")
    exif = made.getexif()
    if turned:
        exif[0x0112] = 6
    made.save(out, form, **({"exif": exif} if turned else {}))
    return out.getvalue()


def office(make: Callable[[io.BytesIO], Any]) -> bytes:
    """Return the file that ``make`` saves."""
    out = io.BytesIO()
    make(out)
    return out.getvalue()


def word() -> bytes:
    """Return a .docx."""
    made = docx.Document()
    made.add_paragraph("Words of docx.")
    return office(made.save)


def deck() -> bytes:
    """Return a .pptx."""
    made = pptx.Presentation()
    made.slides.add_slide(made.slide_layouts[0]).shapes.title.text = "Words of pptx."
    return office(made.save)


def sheet() -> bytes:
    """Return a .xlsx."""
    made = openpyxl.Workbook()
    made.active["A1"] = "Words of xlsx."
    return office(made.save)


def packed() -> bytes:
    """Return a .zip."""
    return office(lambda out: zipfile.ZipFile(out, "w").close())


OFFICE = "application/vnd.openxmlformats-officedocument.{}"
SEEN, HEARD, NAMED = "seen", "heard", "named"
# name -> (content, type as a sender would say it, the model's input)
TABLE: dict[str, tuple[bytes, str, str]] = {
    "a.png": (picture("PNG"), "image/png", SEEN),
    "turned.jpg": (picture("JPEG", turned=True), "image/jpeg", SEEN),
    "a.webp": (picture("WEBP"), "image/webp", SEEN),
    "a.gif": (picture("GIF"), "image/gif", SEEN),
    "a.heic": (b"\0\0\0\x18ftypheic" + bytes(40), "image/heic", UNOPENED),
    "a.mp3": (b"ID3\x04" + bytes(40), "audio/mpeg", HEARD),
    "a.ogg": (b"OggS" + bytes(24) + b"OpusHead", "audio/ogg", HEARD),
    "a.wav": (b"RIFF\0\0\0\0WAVEfmt " + bytes(40), "audio/wav", HEARD),
    "a.m4a": (b"\0\0\0\x18ftypM4A " + bytes(40), "audio/mp4", HEARD),
    "a.mp4": (b"\0\0\0\x18ftypisom" + bytes(40), "video/mp4", HEARD),
    "a.pdf": (papers.pdf(["Words of pdf."]), "application/pdf", "Words of pdf."),
    "a.docx": (word(), OFFICE.format("wordprocessingml.document"), "Words of docx."),
    "a.pptx": (deck(), OFFICE.format("presentationml.presentation"), "Words of pptx."),
    "a.xlsx": (sheet(), OFFICE.format("spreadsheetml.sheet"), "Words of xlsx."),
    "a.csv": (b"Words,of csv.", "text/csv", "of csv."),
    "a.md": (b"# Words of md.", "text/markdown", "Words of md."),
    "a.txt": (b"Words of txt.", "text/plain", "Words of txt."),
    "a.html": (b"<!doctype html><p>Words of html.</p>", "text/html", "Words of html."),
    "a.zip": (packed(), "application/zip", NAMED),
    "empty.txt": (b"", "text/plain", NAMED),
    "picture.txt": (picture("PNG"), "text/plain", SEEN),
    "words.png": (b"These are words.", "image/png", UNOPENED),
    "memo.bin": (b"OggS" + bytes(24) + b"OpusHead", "application/octet-stream", HEARD),
}
SAMPLE = ("turned.jpg", "a.ogg", "a.mp4", "a.docx", "a.zip", "picture.txt", "words.png")
Item = tuple[str, bytes, str]
Body = dict[str, Any]


def url(item: Item) -> str:
    """Return a data URL as a client makes it."""
    return f"data:{item[2]};base64,{base64.b64encode(item[1]).decode()}"


def uploaded(item: Item, user: User) -> str:
    """Return the id of a file that was uploaded before."""
    return storage.keep(user=user, name=item[0], content=item[1]).public_id


def field_of(item: Item) -> str:
    """Return the field in which a client puts a file of that type."""
    kind = item[2].partition("/")[0]
    return f"{kind}s" if kind in {"image", "audio", "video"} else "files"


def by_fields(items: list[Item], value: Callable[[Item], Any]) -> Body:
    """Return ``images``, ``audios``, ``videos``, ``files``."""
    body: Body = {"user_id": "555", "text": "look"}
    for item in items:
        body.setdefault(field_of(item), []).append(value(item))
    return body


def inbound_urls(items: list[Item], _user: User) -> list[Body]:
    """Send POST /inbound, with data URLs."""
    return http.read(by_fields(items, lambda each: {"url": url(each), "name": each[0]})).media


def inbound_ids(items: list[Item], user: User) -> list[Body]:
    """Send POST /inbound, with ids of uploaded files."""
    return http.read(by_fields(items, lambda each: {"id": uploaded(each, user)})).media


def web_chat(items: list[Item], user: User) -> list[Body]:
    """Use the web chat: files are uploaded first."""
    given = [{"id": uploaded(each, user), "name": each[0]} for each in items]
    found = frames.read({"type": "message", "text": "look", "files": given})
    assert isinstance(found, frames.Say)
    return found.media


def from_bridge(items: list[Item], _user: User) -> list[Body]:
    """Send POST /process."""
    return bridge.read(by_fields(items, url)).media


def openai_files(items: list[Item], _user: User) -> list[Body]:
    """Send POST /v1/chat/completions, with file parts."""
    parts = [
        {"type": "file", "file": {"file_data": url(each), "filename": each[0]}} for each in items
    ]
    content = [{"type": "text", "text": "look"}, *parts]
    asked = openai.read({"model": models.ALIAS, "messages": [{"role": "user", "content": content}]})
    return chat_messages.take_files(asked.messages)


def ui_stream(items: list[Item], user: User) -> list[Body]:
    """Send POST /ui/chat, with uploaded files and the type that the page knows."""
    parts = [
        {"type": "file", "mediaType": "x/y", "url": f"/files/{uploaded(each, user)}",
         "filename": each[0]}
        for each in items
    ]  # fmt: skip
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "look"}, *parts]}
    asked = ui.read({"id": "chat1", "messages": [message], "trigger": "submit-message"})
    return chat_messages.take_files(asked.messages)


def telegram(items: list[Item], _user: User) -> list[Body]:
    """Use a platform whose files are fetched: pictures and recordings by their kind, else
    documents.
    """
    found = []
    for item in items:
        PLATFORM.files[item[0]] = item[1]
        kind = field_of(item).removesuffix("s").replace("file", "document")
        found.append({"kind": kind, "remote": item[0], "name": item[0], "mime": item[2]})
    return found


ENDPOINTS = {
    "/inbound by data URL": (inbound_urls, tuple(TABLE)),
    "web chat": (web_chat, tuple(TABLE)),
    "/inbound by id": (inbound_ids, SAMPLE),
    "/process": (from_bridge, SAMPLE),
    "/v1": (openai_files, SAMPLE),
    "/ui/chat": (ui_stream, SAMPLE),
    "platform": (telegram, SAMPLE),
}


class Watcher(Scripted):
    """A model that records its input; ``blind``: it refuses pictures."""

    def __init__(self, *, blind: bool = False) -> None:
        super().__init__([])
        self.blind = blind
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """See ``Provider.stream``."""
        self.asked.append(request)
        if self.blind and sight.has_pictures(request.messages):
            raise ProviderError("The model refused the request (400).", code="refused")
        async for delta in super().stream(request):
            yield delta


@pytest.fixture
def model(runner: Runner, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Watcher:
    """Return the model; a fake transcriber hears something in every recording."""

    async def speech(_path: object, *, name: str) -> str:
        return f"heard {name}"

    settings.MAX_ATTACHMENTS = 40
    made = Watcher()
    monkeypatch.setattr(transcribe, "speech", speech)
    monkeypatch.setattr(providers, "provider_of", lambda _: made)
    monkeypatch.setattr(sight, "refusals", TtlCache(sight.REMEMBERED_SECONDS))
    return made


def chain_head() -> ModelInfo:
    """Return the first model of the default assistant."""
    known = catalogue.current()
    return known.chain_of(known.default)[0]


def given(model: Watcher) -> tuple[str, list[str]]:
    """Return the text and the pictures of the last question."""
    content = model.asked[-1].messages[-1]["content"]
    parts: list[dict[str, Any]] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    return text, [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def ask(media: list[Body], *, where: str, user: User) -> Run:
    """Send one message with these files; return its run when it has ended."""
    if where == "platform":
        say_on_platform(
            account=memory_account(), sender="555", chat="c", text="look", message_id="1",
            now=timezone.now(), media=media,
        )  # fmt: skip
    else:
        draft = inbox.Draft(account=builtin_account("http"), text="look", media=media)
        inbound.receive_personal(user=user, draft=draft, session_id="", now=transactions.now())
    until(lambda: Run.objects.filter(state__in=Run.FINAL).exists(), seconds=60)
    run = Run.objects.get()
    assert run.state == Run.State.SUCCEEDED, run.error
    return run


@pytest.mark.parametrize("where", ENDPOINTS)
def test_c6_every_file_reaches_the_model_by_its_real_type_at_every_endpoint(
    where: str, model: Watcher, owner: User
) -> None:
    parse, names = ENDPOINTS[where]
    items = [(name, *TABLE[name][:2]) for name in names if TABLE[name][0] or where == "web chat"]
    if where == "/inbound by data URL":  # there a picture is one, or the request is refused
        items = [each for each in items if each[0] not in {"a.heic", "words.png"}]
    run = ask(parse(items, owner), where=where, user=owner)
    text, pictures = given(model)
    expected = {name: TABLE[name][2] for name, _content, _mime in items}
    assert len(pictures) == list(expected.values()).count(SEEN)
    assert all(media_type(base64.b64decode(each.partition(",")[2])[:64]) for each in pictures)
    assert text.count("Transcript: heard ") == list(expected.values()).count(HEARD)
    for words in set(expected.values()) - {SEEN, HEARD, NAMED}:
        assert words in text, text
    assert run.result["text"].startswith(UNOPENED) is (UNOPENED in expected.values())
    assert "look" in text


@pytest.mark.parametrize("vision", ["", "eyes"])
def test_c6_a_picture_is_upright_and_bounded_in_pixels_and_bytes(
    vision: str, model: Watcher, owner: User, settings: Any
) -> None:
    """For the model that answers, and for the one that describes pictures for it."""
    settings.VISION_MODEL = vision
    big = io.BytesIO()
    made = Image.effect_noise((3000, 2000), 80).convert("RGB")
    exif = made.getexif()
    exif[0x0112] = 6
    exif[0x010E] = "where it was taken"
    made.save(big, "JPEG", exif=exif, quality=95)
    media = web_chat([("big.jpg", big.getvalue(), "image/jpeg")], owner)
    ask(media, where="web chat", user=owner)
    del model.asked[1:]
    _text, (shown,) = given(model)
    content = base64.b64decode(shown.partition(",")[2])
    found = Image.open(io.BytesIO(content))
    assert (found.height, found.width) == (1568, 1045)
    assert len(content) < len(big.getvalue()) / 2
    assert b"where it was taken" not in content


def test_c6_a_question_after_a_picture_may_be_about_it(
    model: Watcher, owner: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a stop. Not about one that is gone, or of a run that failed, maybe for it."""
    made: list[Path] = []

    def once(path: Path, **more: Any) -> Any:
        made.append(path)
        return scaled(path, **more)

    monkeypatch.setattr("core.media.picture.scaled", once)
    settings.DEBOUNCE_IDLE_MILLISECONDS = 1
    account = memory_account()
    PLATFORM.files["f"] = TABLE["a.png"][0]

    def seen_after(number: int, media: list[Body]) -> list[int]:
        say_on_platform(
            account=account, sender="555", chat="c", text="look", message_id=str(number),
            now=timezone.now(), media=media,
        )  # fmt: skip
        until(lambda: Run.objects.filter(state__in=Run.FINAL).count() == number)
        messages = enumerate(model.asked[-1].messages)
        return [place for place, each in messages if sight.has_pictures([each])]

    assert seen_after(1, [{"kind": "image", "remote": "f", "name": "a.png"}]) == [1]
    assert seen_after(2, []) == [1]
    assert len(made) == 1
    assert [each["role"] for each in model.asked[-1].messages[1:]] == ["user", "assistant", "user"]
    StoredFile.objects.update(revoked_at=timezone.now())
    assert seen_after(3, []) == []
    StoredFile.objects.update(revoked_at=None)
    first = Run.objects.filter(id=Run.objects.earliest("id").id)
    first.update(state=Run.State.CANCELLED)
    assert seen_after(4, []) == [1]
    first.update(state=Run.State.FAILED)
    assert seen_after(5, []) == []


def test_c6_a_model_that_refuses_pictures_is_asked_once_and_remembered(
    model: Watcher, owner: User
) -> None:
    """The answer comes all the same; the next picture is not tried."""
    model.blind = True
    item = ("a.png", *TABLE["a.png"][:2])
    run = ask(web_chat([item], owner), where="web chat", user=owner)
    assert [sight.has_pictures(each.messages) for each in model.asked] == [True, False]
    assert sight.UNSEEN in json.dumps(model.asked[-1].messages)
    assert "a.png" in run.result["text"]
    assert not sight.can_see(chain_head())


def test_c6_a_refusal_for_another_reason_is_not_held_against_pictures(
    model: Watcher, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_self: Watcher, _request: ModelRequest) -> AsyncGenerator[Delta, None]:
        raise ProviderError("The model refused the request (400).", code="refused")
        yield

    monkeypatch.setattr(Watcher, "stream", refuse)
    draft = inbox.Draft(
        account=builtin_account("http"), text="look",
        media=web_chat([("a.png", *TABLE["a.png"][:2])], owner),
    )  # fmt: skip
    inbound.receive_personal(user=owner, draft=draft, session_id="", now=transactions.now())
    until(lambda: Run.objects.filter(state="failed").exists())
    assert sight.can_see(chain_head())


@pytest.mark.parametrize(
    ("images", "vision", "embedded", "sees"),
    [
        ("auto", "", False, True),
        ("auto", "eyes", False, False),
        ("auto", "", True, False),
        ("yes", "eyes", True, True),
        ("no", "", False, False),
    ],
)
def test_c6_the_setting_chooses_the_model_that_sees(
    images: str, vision: str, embedded: bool, sees: bool, settings: Any
) -> None:
    settings.LLM_IMAGES, settings.VISION_MODEL = images, vision
    settings.LLM_IS_EMBEDDED = embedded
    model = replace(MODEL, id=77, is_embedded=embedded)
    assert sight.can_see(model) is sees
