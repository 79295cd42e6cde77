"""[L1] The real plugins behind ``route_to_plugin``, with a scripted model: the parameters of the
call decide the topic of the deck or the summary, whatever the request says.
"""

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import pptx
import pytest
from aiohttp import web
from django.conf import settings

from core.files import storage
from core.jobs_worker import sources
from core.lib.safe_fetch import FETCHER
from core.lib.text import quote
from core.models import ChatSession, Job, Message, Run, StoredFile, User
from core.plugins import registry
from core.plugins.base import Artifact, Capability, PluginResult
from core.plugins.html_slides import PLUGIN as HTML
from core.plugins.ppt_generation import PLUGIN as PPT
from core.tools import registry as tools
from core.tools.base import ToolError
from core.tools.route_to_plugin import TOOL, chosen, given, known
from tests.core.jobs_worker import papers
from tests.core.jobs_worker.conftest import Say, Worker
from tests.core.lib.test_safe_fetch import serving

pytestmark = pytest.mark.django_db(transaction=True)
Script = Callable[[list[dict[str, Any]]], None]
# The requirement's own call.
NORWAY: dict[str, Any] = {
    "plugin_id": "ppt-generation",
    "capability_id": "create_from_source",
    "parameters": {"source": "Renewable energy in Norway"},
}
POINTS = [
    {"label": "Rivers", "text": "Rivers turn the turbines of the valleys."},
    {"label": "Wind", "text": "Storms drive the parks on the coast."},
    {"label": "Grid", "text": "Cables carry what is left to the neighbours."},
]
OUTLINE = {
    "title": "A tour of power",
    "subtitle": "From rivers to storms",
    "sections": [
        {"title": "", "slides": ["Power out of rivers", "Parks on the coast", "Cables abroad"]}
    ],
}
SLIDE = {"points": POINTS, "notes": "Speak slowly.", "layout": "list", "left": "", "right": ""}
WRITER: list[dict[str, Any]] = [
    {"match": "^Plan a presentation", "steps": [{"text": json.dumps(OUTLINE)}]},
    {"match": "Slide: ", "steps": [{"text": json.dumps(SLIDE)}]},
    {"match": "more slide titles", "steps": [{"text": '{"more": ["Prices at night"]}'}]},
    {"match": "^Presentation: ", "steps": [{"text": "{}"}]},
    {"match": "^Write three short", "steps": [{"text": "Snow feeds lakes. Lakes feed towns."}]},
]
MILL = (
    "# The mill of Oberried\n\nThe mill grinds corn since 1650. Its wheel turns by the brook.\n\n"
    "Bakers fetch their flour on Fridays. The miller lives above the stones. "
    + "Visitors come in summer and learn how bread was made. "
    * 6
)


@pytest.fixture(autouse=True)
def test_plugins() -> None:
    """Install the real plugins, in place of the other tests' own."""
    real = {PPT.id: PPT, HTML.id: HTML}
    assert real.items() <= registry.every().items()


def calling(arguments: dict[str, Any], match: str = "") -> list[dict[str, Any]]:
    """Return a model that writes slides, and calls the tool with ``arguments`` for anything else."""
    return [*WRITER, {"match": match, "steps": [{"tool": TOOL.name, "arguments": arguments}]}]


def calling_unplanned(
    arguments: dict[str, Any], match: str, said: str = "Magma rises through cracks. Ash falls. " * 9
) -> list[dict[str, Any]]:
    """Return a model that writes no slides, so that a deck has the words of its source; it calls
    the tool for what matches, and says ``said`` for anything else.
    """
    return [
        {"match": "^(Plan|Presentation)", "steps": [{"text": "{}"}]},
        {"match": match, "steps": [{"tool": TOOL.name, "arguments": arguments}]},
        {"match": "", "steps": [{"text": said}]},
    ]


def call(**parameters: Any) -> dict[str, Any]:
    """Return a call of the slides with these parameters."""
    return {**NORWAY, "parameters": parameters}


def titles(stored: StoredFile) -> list[str]:
    """Return the titles of a .pptx, in order."""
    deck = pptx.Presentation(io.BytesIO(storage.read(stored)))
    return [slide.shapes.title.text_frame.text for slide in deck.slides]


def words(stored: StoredFile) -> str:
    """Return all text that a .pptx shows."""
    deck = pptx.Presentation(io.BytesIO(storage.read(stored)))
    shapes = [shape for slide in deck.slides for shape in slide.shapes if shape.has_text_frame]
    return "\n".join(shape.text_frame.text for shape in shapes)


def made(run: Run) -> StoredFile:
    """Return the one file of a run."""
    assert run.state == Run.State.SUCCEEDED, run.error
    assert Job.objects.get().error == ""
    return StoredFile.objects.get(run=run, origin=storage.MADE)


def test_l1_the_requirements_own_call_makes_a_deck_of_its_source(
    worker: Worker, script: Script, say: Say
) -> None:
    script(calling(NORWAY))
    run = say("do it")
    assert titles(made(run))[0] == "Renewable energy in Norway"
    assert run.result["text"].count("/files/out?token=") == 1


@pytest.mark.parametrize("name", ["topic", "source"])
def test_l1_the_topic_of_the_call_wins_over_a_request_that_only_points(
    name: str, worker: Worker, script: Script, say: Say
) -> None:
    script(
        [
            *calling(call(**{name: "Volcanoes"}), "turn this"),
            {"match": "", "steps": [{"text": "Volcanoes are vents in the crust of the earth."}]},
        ]
    )
    first = say("Tell me about volcanoes")
    run = say("Nice. Now turn this into a deck please", session=first.session.public_id)
    deck = made(run)
    assert titles(deck)[0] == "Volcanoes"
    assert "Nice" not in words(deck)
    assert deck.name == "Volcanoes.pptx"


def test_l1_a_call_without_a_source_takes_the_conversation_not_the_request(
    worker: Worker, script: Script, say: Say
) -> None:
    said = "Magma rises through cracks. Ash falls on the fields. Villages move away in time. " * 4
    script(calling_unplanned(call(), "turn this", said))
    first = say(f"{quote('Mind the lava!', sender='Bo')}\nWhat do volcanoes do to people?")
    run = say("Nice. Now turn this into a deck please", session=first.session.public_id)
    shown = words(made(run))
    assert "Ash falls on the fields" in shown
    assert "deck" not in shown
    assert "quoted" not in shown


@pytest.mark.parametrize(
    "source",
    [{"source": "this conversation"}, {"topic": "our chat"}, {"source": "the document above"}],
)
def test_l1_a_source_that_only_refers_to_something_is_none(
    worker: Worker, script: Script, say: Say, source: dict[str, str]
) -> None:
    """Models write such words where a person does: they were the topic of the deck."""
    script(calling_unplanned(call(**source), "turn"))
    here = {"session": say("What do volcanoes do to people?").session.public_id}
    deck = made(say("Now turn this into a deck", **here))
    assert "Ash falls" in words(deck)
    assert titles(deck)[0] == "What do volcanoes do to people"


@pytest.mark.parametrize("most", [200, 2000])
def test_l1_a_call_without_a_source_takes_the_message_that_is_quoted(
    worker: Worker, script: Script, say: Say, most: int
) -> None:
    """*Make slides of this*, in reply to somebody else's message."""
    script(calling_unplanned(call(), "Make slides"))
    first = say("What do volcanoes do to people?")
    asked = f"{quote(MILL[:most], sender='Bo')}\nMake slides of this"
    shown = words(made(say(asked, session=first.session.public_id)))
    assert "brook" in shown
    assert "volcanoes" not in shown
    assert "quoted" not in shown


def test_l1_a_call_without_a_source_takes_the_text_below_its_request(
    worker: Worker, script: Script, say: Say
) -> None:
    """A model need not repeat what was sent; an earlier conversation is another matter."""
    script(calling_unplanned(call(), "Make slides"))
    first = say("What do volcanoes do to people?")
    run = say(f"Make slides of this text:\n{MILL}", session=first.session.public_id)
    deck = made(run)
    assert titles(deck)[0] == "The mill of Oberried"
    assert "Bakers fetch their flour on Fridays" in words(deck)
    assert "Magma" not in words(deck)


def test_l1_count_language_audience_and_title_of_the_call_are_kept(
    worker: Worker, script: Script, say: Say
) -> None:
    order = call(source="Bees", slides=5, language="German", audience="children", title="Summ!")
    script(calling(order))
    deck = made(say("Make 8 slides about wasps in French for teachers"))
    assert titles(deck)[0] == "Summ!"
    assert len(titles(deck)) == 5
    assert titles(deck)[-1] == "Kurz gesagt"
    parameters = Job.objects.get().parameters["parameters"]
    assert (parameters["language"], parameters["audience"]) == ("de", "children")


def test_l1_the_request_fills_in_missing_parameters(
    worker: Worker, script: Script, say: Say
) -> None:
    script(calling(call(source="Bees")))
    deck = made(say("Make 6 slides about bees in German for children"))
    assert (titles(deck)[0], len(titles(deck)), titles(deck)[-1]) == ("Bees", 6, "Kurz gesagt")


@pytest.fixture
def mill(ada: User) -> StoredFile:
    """Store a document of the person's own."""
    return storage.keep(user=ada, name="mill.md", content=MILL.encode())


WAYS: dict[str, Callable[[StoredFile], dict[str, Any]]] = {
    "a text": lambda _file: {"source": MILL},
    "a handle": lambda file: {"source": f"/files/{file.public_id}"},
    "a bare id": lambda file: {"source": file.public_id},
    "a link of the gateway": lambda file: {"source": storage.link(file)},
    "a link with words": lambda file: {"source": f"Point 3 of {storage.link(file)} shorter"},
    "links in a list": lambda file: {"files": [storage.link(file)]},
    "its address for those signed in": lambda file: {
        "source": f"{settings.GATEWAY_URL}/files/{file.public_id}"
    },
    "a text with such an address": lambda _file: {
        "source": f"{MILL}More: https://mill.example/files/report, and /files/old"
    },
    "a handle as file": lambda file: {"file": f"/files/{file.public_id}"},
    "handles in a list": lambda file: {"files": [f"/files/{file.public_id}"]},
    "beside parameters": lambda file: {"source": f"/files/{file.public_id}", "beside": True},
}


@pytest.mark.parametrize("way", WAYS)
def test_l1_a_source_is_a_text_or_a_file_however_it_is_named(
    way: str, worker: Worker, script: Script, say: Say, mill: StoredFile
) -> None:
    parameters = WAYS[way](mill)
    arguments = call(**parameters)
    if parameters.pop("beside", False):
        arguments = {"plugin_id": "ppt-generation", **parameters}
    script(
        [
            {"match": "^(Plan|Presentation)", "steps": [{"text": "{}"}]},
            {"match": "", "steps": [{"tool": TOOL.name, "arguments": arguments}]},
        ]
    )
    deck = made(say("Nice. Now turn this into a deck please"))
    assert titles(deck)[0] == "The mill of Oberried"
    assert "Bakers fetch their flour on Fridays" in words(deck)


def test_l1_a_source_may_be_a_web_address_read_by_the_guarded_fetcher(
    worker: Worker, script: Script, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def page(_request: web.Request) -> web.Response:
        html = f"<html><body><h1>The mill (ο μύλος)</h1><p>{MILL}</p></body></html>"
        return web.Response(text=html, content_type="text/html", charset="windows-1253")

    async def fetched(url: str) -> Any:
        async with serving(page) as port:
            local = replace(FETCHER, allowed=lambda _a: True, ports=None, local_names=True)
            return await local.get(url.replace("https://mill.example", f"http://127.0.0.1:{port}"))

    monkeypatch.setattr(sources, "FETCHER", type("Fake", (), {"get": staticmethod(fetched)}))
    script(
        [
            {"match": "^(Plan|Presentation)", "steps": [{"text": "{}"}]},
            *calling(call(source="https://mill.example/0"))[-1:],
        ]
    )
    deck = made(say("slides of this page"))
    assert titles(deck)[0] == "The mill (ο μύλος)"
    assert "Bakers fetch their flour on Fridays" in words(deck)


def test_l1_a_private_address_is_refused_with_a_message(
    worker: Worker, script: Script, say: Say
) -> None:
    script(calling(call(source="http://127.0.0.1/secret")))
    run = say("slides of this page")
    assert run.result["text"] == "The address could not be read: address not allowed."
    assert not StoredFile.objects.exists()


WRONG: dict[str, dict[str, Any]] = {
    "parameters.slides must be a whole number from 3 to 40": {"source": "x", "slides": "many"},
    "parameters.slides must be a whole number from 3 to 40; it was 400": {"slides": 400},
    "parameters.audience must be a string": {"source": "x", "audience": ["a"]},
    "parameters.subject is not known. ppt-generation takes: source": {"subject": "Bees"},
    "parameters.files must be a list": {"files": {"a": 1}},
}


@pytest.mark.parametrize("said", WRONG)
def test_l1_wrong_parameters_are_named_by_their_field(said: str) -> None:
    with pytest.raises(ToolError, match=re.escape(said)):
        known(given(call(**WRONG[said])), PPT.capabilities["create_from_source"], PPT.id)


def test_l1_a_model_can_call_again_after_an_error(worker: Worker, script: Script, say: Say) -> None:
    wrong, right = call(source="Bees", slides="many"), call(source="Bees", slides=4)
    script(
        [
            *WRITER,
            {
                "match": "",
                "after_tool": True,
                "steps": [{"tool": TOOL.name, "arguments": right}],
            },
            {"match": "", "steps": [{"tool": TOOL.name, "arguments": wrong}]},
        ]
    )
    assert len(titles(made(say("slides")))) == 4


@pytest.mark.parametrize("wanted", [("", "plugin_id is missing"), ("ppt", "no plugin “ppt”")])
def test_l1_an_unknown_plugin_error_lists_the_known_ones(wanted: tuple[str, str]) -> None:
    with pytest.raises(ToolError, match=wanted[1]) as told:
        chosen({"plugin_id": wanted[0]})
    assert "ppt-generation, html-slides, summarize" in str(told.value)


def test_l1_the_model_sees_each_capabilitys_own_schema() -> None:
    """As providers take it: an object at the top, the alternatives inside, nothing untyped."""
    (sent,) = [each for each in tools.schemas() if each["function"]["name"] == TOOL.name]
    schema = sent["function"]["parameters"]
    assert not {"anyOf", "oneOf", "allOf"} & set(schema)
    inner = schema["properties"]["parameters"]["anyOf"]
    names = {name for branch in inner for name in branch["title"].split(", ")}
    expected = {
        f"{plugin.id} {name}"
        for plugin in registry.every().values()
        for name in plugin.capabilities
    }
    assert names == expected
    for branch in inner:
        for name, each in branch["properties"].items():
            assert each["type"], name
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(NORWAY, schema)


class Sung:
    """A plugin of another package with a required parameter of its own."""

    id, name = "songs", "song"
    verse: Capability = Capability(
        "Writes a song.",
        {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]},
    )
    capabilities = {"verse": verse}

    async def run(self, *_given: Any) -> PluginResult:
        """Do nothing."""
        return PluginResult("", [Artifact(None, "", "")])  # type: ignore[arg-type]


def test_l1_a_required_parameter_of_another_plugin_is_named_when_it_is_missing() -> None:
    plugin = Sung()
    with pytest.raises(ToolError, match=r"parameters\.mood is missing"):
        known({"source": "bees"}, plugin.capabilities["verse"], plugin.id)


# --- several documents ------------------------------------------------------------------------------

SUMMARY: list[dict[str, Any]] = [
    {"match": "(?s)^Summarize the document.*alpha.*beta", "steps": [{"text": "Alpha and beta."}]},
    {"match": "(?s)^Summarize the document.*alpha", "steps": [{"text": "Only alpha."}]},
    {"match": "(?s)^Summarize the document.*beta", "steps": [{"text": "Only beta."}]},
    {"match": "(?i)summarize", "steps": [{"text": "I am working on it, one moment."}]},
    {"match": "", "steps": [{"text": "Thank you."}]},
]


@pytest.fixture
def pair(ada: User) -> list[dict[str, str]]:
    """Return two documents, as media of a message."""
    return [
        {
            "kind": "file",
            "upload": storage.keep(
                user=ada, name=f"{word}.txt", content=f"The {word} grew.".encode()
            ).public_id,
        }
        for word in ("alpha", "beta")
    ]


def test_l1_all_documents_of_a_message_are_read(
    worker: Worker, script: Script, say: Say, pair: list[dict[str, str]]
) -> None:
    script(SUMMARY)
    assert (
        say("Summarize both documents", media=pair)
        .result["text"]
        .endswith("Alpha and beta.\n\n**Sources**\n\n1. alpha.txt\n2. beta.txt")
    )


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Please summarize both documents", "Alpha and beta."),
        ("Please summarize the report alpha.txt", "Only alpha."),
        ("Please summarize the document", "Only beta.\n\nNot read: “alpha.txt”."),
    ],
)
def test_l1_documents_sent_one_after_the_other_are_all_found(
    asked: str, answer: str, worker: Worker, script: Script, say: Say, pair: list[dict[str, str]]
) -> None:
    script(SUMMARY)
    first = say("here is one", media=pair[:1])
    say("and another", media=pair[1:], session=first.session.public_id)
    text = say(asked, session=first.session.public_id).result["text"]
    said = text.removeprefix("I am working on it, one moment.").partition("\n\n**Sources**")[0]
    assert said.strip() == answer


def test_l1_a_source_may_be_the_name_of_an_earlier_document(
    worker: Worker, script: Script, say: Say, pair: list[dict[str, str]]
) -> None:
    arguments = {"plugin_id": "summarize", "parameters": {"source": "alpha.txt"}}
    asked = {"match": "the first one", "steps": [{"tool": TOOL.name, "arguments": arguments}]}
    script([*SUMMARY[:3], asked, *SUMMARY[3:]])
    here = {"session": say("here are two", media=pair).session.public_id}
    text = say("Tell me about the first one", **here).result["text"]
    assert text == "Only alpha.\n\n**Sources**\n\n1. alpha.txt"


def test_l1_both_are_the_last_two(
    worker: Worker, script: Script, say: Say, ada: User, pair: list[dict[str, str]]
) -> None:
    script(SUMMARY)
    old = storage.keep(user=ada, name="old.txt", content=b"The old one.")
    media = [{"kind": "file", "upload": old.public_id}]
    here = {"session": say("here is an old one", media=media).session.public_id}
    for each in pair:
        say("and another", media=[each], **here)
    text = say("Please summarize both documents", **here).result["text"]
    assert "Alpha and beta.\n\nNot read: “old.txt”." in text


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Please summarize our conversation", "Only words."),
        ("Can you summarize what we discussed?", "Only words."),
        ("Please summarize the document in this chat", "Only alpha."),
    ],
)
def test_l1_a_summary_of_the_conversation_is_none_of_its_documents(
    asked: str, answer: str, worker: Worker, script: Script, say: Say, pair: list[dict[str, str]]
) -> None:
    script(
        [{"match": "^Summarize .*This conversation", "steps": [{"text": "Only words."}]}, *SUMMARY]
    )
    here = {"session": say("here is one", media=pair[:1]).session.public_id}
    assert answer in say(asked, **here).result["text"]


def test_l1_a_document_of_the_conversation_before_a_new_one_is_not_found(
    worker: Worker, script: Script, say: Say, pair: list[dict[str, str]]
) -> None:
    script(SUMMARY)
    here = {"session": say("here is one", media=pair[:1]).session.public_id}
    say("/new something else", **here)
    say("and another", media=pair[1:], **here)
    text = say("Please summarize both documents", **here).result["text"]
    assert "Only beta.\n\n**Sources**" in text


def test_an_answer_that_came_after_a_new_start_is_none_of_the_conversation(say: Say) -> None:
    first = say("before")
    ChatSession.objects.update(history_from=Message.objects.get(run=first, role="user").pk)
    asked = say("Please summarize our conversation", session=first.session.public_id)
    late = Message.objects.filter(run=first, id__gt=asked.history_from)
    assert late.exists()
    assert not sources.before(asked).exists()


def test_l1_a_document_that_cannot_be_read_is_said_and_the_others_are_read(
    worker: Worker, script: Script, say: Say, ada: User, pair: list[dict[str, str]]
) -> None:
    script(SUMMARY)
    locked = storage.keep(user=ada, name="locked.pdf", content=papers.encrypted_pdf())
    media = [{"kind": "file", "upload": locked.public_id}, *pair]
    text = say("Summarize these documents", media=media).result["text"]
    assert "Alpha and beta.\n\nNot read: “locked.pdf” (" in text
    assert "password" in text


def test_l1_a_document_that_a_call_leaves_out_is_said(
    worker: Worker, script: Script, say: Say, pair: list[dict[str, str]]
) -> None:
    arguments = {"plugin_id": "summarize", "parameters": {"file": f"/files/{pair[0]['upload']}"}}
    script([*SUMMARY[:3], {"match": "", "steps": [{"tool": TOOL.name, "arguments": arguments}]}])
    text = say("Fasse beide zusammen", media=pair).result["text"]
    assert text.startswith("Only alpha.\n\nNicht gelesen: “beta.txt”.\n\n")


def test_c6_a_recording_beside_a_document_does_not_break_its_summary(
    worker: Worker, script: Script, say: Say, ada: User, pair: list[dict[str, str]]
) -> None:
    """The web chat uploads both as files; the kind comes from their content."""
    script(SUMMARY)
    memo = storage.keep(user=ada, name="memo.bin", content=b"OggS" + bytes(24) + b"OpusHead")
    media = [*pair, {"kind": "file", "upload": memo.public_id}]
    run = say("Summarize these documents", media=media)
    assert "Alpha and beta.\n\n**Sources**" in run.result["text"]
    assert "Not read" not in run.result["text"]
    assert [item["kind"] for item in run.route["media"]] == ["file", "file", "audio"]
