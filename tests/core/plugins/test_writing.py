"""[L1] A deck is written from a source by a model, and is complete when the model fails."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pptx import Presentation

from core.lib.languages import detect, named
from core.plugins.base import Cancelled, PluginError, Source
from core.plugins.ppt_generation import PLUGIN
from core.plugins.slides import asked, brief, compose, layout
from core.plugins.slides.deck import ChartSlide, Deck, QuoteSlide, TableSlide, TitleSlide
from tests.core.plugins.hosts import ScriptedHost, document, good, kind_of, topic, unreachable
from tests.core.plugins.reports import REPORT


async def deck_of(host: ScriptedHost, text: str, **parameters: object) -> Deck:
    """Return the deck that a host's model makes of a text."""
    source = document(text) if len(text) > 200 else topic(text)
    return (await compose.make(brief.read(parameters, source, host.context_tokens), host)).deck


def files_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return [path.name for path in folder.iterdir()]


def words_of(deck: Deck) -> str:
    """Return all text of a deck, as one text."""
    return repr(layout.pages(deck))


async def test_the_outline_comes_first_then_each_slide_with_progress(tmp_path: Path) -> None:
    """[L1] [L2]"""
    host = ScriptedHost(tmp_path, good)
    result = await PLUGIN.run(
        "create_from_source", {"slides": 9}, topic("generate a PPT about clean power"), host
    )
    assert [kind_of(schema) for _prompt, schema, _system in host.asked] == [
        "outline",
        *["slide"] * 6,
        "closing",
    ]
    assert host.told[0] == ("Planning the slides", 3)
    assert host.told[3][0] == "Writing slide 3 of 7"
    percents = [percent for _message, percent in host.told if percent is not None]
    assert percents == sorted(percents)
    assert len(percents) == len(host.told)
    assert [file.name for file in result.files] == ["Clean power.pptx"]
    assert "9 slides" in result.text
    assert result.files[0].path.parent == tmp_path


@pytest.mark.parametrize("count", [3, 4, 5, 6, 8, 9, 12, 15, 20])
@pytest.mark.parametrize("text", [REPORT, "clean power"], ids=["document", "topic"])
async def test_a_deck_has_exactly_as_many_slides_as_asked_for(
    tmp_path: Path, count: int, text: str
) -> None:
    """[L1] For any answer of the model: here it has six slides for every plan."""
    deck = await deck_of(ScriptedHost(tmp_path, good), text, slides=count)
    assert len(layout.pages(deck)) == count


async def test_a_source_too_thin_for_so_many_slides_is_said(tmp_path: Path) -> None:
    """[L1] No slide is made of nothing."""
    source = document("The mill stands by the river. It was built in stone.")
    host = ScriptedHost(tmp_path, lambda _prompt, _schema: "{}")
    result = await PLUGIN.run("create_from_source", {"slides": 30}, source, host)
    assert result.note == "The source holds no more than that; 30 slides were asked for."


ORDERS = {
    "Make 5 slides about volcanoes in German for children": ("Volcanoes", 5, "de-DE", "children"),
    "Renewable energy, 4 slides": ("Renewable energy", 4, "en-US", ""),
    "a five-slide deck on volcanoes, in Spanish please": ("Volcanoes", 5, "es-ES", ""),
    "Erstelle 6 Folien über Vulkane auf Englisch für Anfänger": ("Vulkane", 6, "en-US", "Anfänger"),
    "Fais une présentation de sept diapositives sur les volcans en allemand": (
        *("Les volcans", 7, "de-DE", ""),
    ),
    "Haz 5 diapositivas sobre los volcanes en inglés para niños": (
        *("Los volcanes", 5, "en-US", "niños"),
    ),
    "Crea una presentazione di 6 slide sui vulcani": ("Vulcani", 6, "it-IT", ""),
    "做一个关于火山的PPT，用英文，5页": ("火山", 5, "en-US", ""),
    "火山についてのスライドを5枚、英語で、初心者向けに作って": ("火山", 5, "en-US", "初心者"),
    "화산에 대한 슬라이드 5장 만들어줘": ("화산", 5, "ko-KR", ""),
    "Сделай презентацию о вулканах, 6 слайдов": ("Вулканах", 6, "ru-RU", ""),
    "Make slides about life in German cities": ("Life in German cities", 10, "en-US", ""),
    "The history of the slide rule": ("The history of the slide rule", 10, "en-US", ""),
}


@pytest.mark.parametrize("given", ["source", "request"])
@pytest.mark.parametrize("order", ORDERS, ids=list(ORDERS))
async def test_count_language_audience_and_title_are_as_asked(
    tmp_path: Path, order: str, given: str
) -> None:
    """[L1] In the source of a call or in the request: no instruction is in the title."""
    about, count, tag, audience = ORDERS[order]
    host = ScriptedHost(tmp_path, good)
    source = topic(order if given == "source" else about)
    read = brief.read({"request": order, "slides": None}, source, host.context_tokens)
    assert (read.topic, read.count, read.language.tag) == (about, count, tag)
    assert read.audience == audience
    deck = (await compose.make(read, host)).deck
    assert (deck.title, len(layout.pages(deck))) == (about, count)
    assert all(read.language.name in system for _p, _s, system in host.asked)


@pytest.mark.parametrize(
    ("request_text", "wanted"),
    [
        ('Make slides about bees titled "Our bees, 2 years on"', "Our bees, 2 years on"),
        ("Make a presentation called Our Year with 6 slides", "Our Year"),
        ("Erstelle Folien über Bienen mit dem Titel „Unsere Bienen“", "Unsere Bienen"),
        ("Fais des diapositives avec le titre « Nos abeilles »", "Nos abeilles"),
        ("做一个关于蜜蜂的PPT，标题是《我们的蜜蜂》", "我们的蜜蜂"),
    ],
)
@pytest.mark.parametrize("source", [topic("Bees"), document(REPORT, "report-2024_final.pdf")])
async def test_a_title_that_was_asked_for_is_the_title(
    tmp_path: Path, request_text: str, wanted: str, source: Source
) -> None:
    """[L1]"""
    order = brief.read({"request": request_text}, source, 3072)
    deck = (await compose.make(order, ScriptedHost(tmp_path, good))).deck
    assert deck.title == wanted


@pytest.mark.parametrize(
    ("words", "about"),
    [
        ("帮我把这个做成PPT", ""),
        ("根据上面的对话生成一份10页的PPT", ""),
        ("做一个蜜蜂的PPT", "蜜蜂"),
        ("帮我制作一份公司介绍的演示文稿", "公司介绍"),
        ("能不能给我做个PPT，主题是中国历史？", "中国历史"),
        ("これをスライドにして", ""),
        ("この文書のスライドを5枚作って", ""),
        ("スライド5枚作って", ""),
        ("蜂のスライドを作って", "蜂"),
        ("이걸 슬라이드로 만들어줘", ""),
        ("화산 슬라이드 만들어줘", "화산"),
        ("Kannst du daraus eine Präsentation machen?", ""),
        ("Eine Präsentation dazu bitte", ""),
        ("Make 10 slides from the two documents", ""),
        ("Please make a PowerPoint of the PDF I sent you", ""),
        ("Could you make ten slides about life as a nurse?", "Life as a nurse"),
        ("Transforme ce document en présentation", ""),
        ("Convierte este documento en diapositivas", ""),
        ("The history of this house, 4 slides", "The history of this house"),
        ("[Voice Message]\nTranscript: erstell mir daraus Folien", ""),
        ("[Voice Message]\nTranscript: 把这份文档做成PPT", ""),
        ("プレゼンのコツ", "プレゼンのコツ"),
        ("가을 슬라이드 만들어줘", "가을"),
        ("Make slides about IT", "IT"),
        ("Make slides about it", ""),
        ("Erstelle Folien über Diesel", "Diesel"),
        ("Make a presentation about aquifers", "Aquifers"),
    ],
)
def test_an_order_that_only_refers_to_something_has_no_topic(words: str, about: str) -> None:
    """[L1] In scripts without spaces, too, and where it was spoken: it was the topic itself."""
    assert asked.read(words).topic == about


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "words", [f"this{' ' * 5000}table", f"dies{'份' * 50000}.", " " * 5000 + "."]
)
def test_a_long_source_is_looked_at_once(words: str) -> None:
    """Its spaces were tried in all ways: for minutes for a thousand of them."""
    assert not asked.refers(words, is_order=False)


def test_a_call_wins_over_the_words_of_the_request() -> None:
    """[L1] The request only fills in what the call left out."""
    call = {"topic": "Volcanoes", "slides": 7, "language": "fr", "audience": "teachers"}
    words = "Make 4 slides about bees in German for children"
    order = brief.read({**call, "request": words}, topic("Volcanoes"), 3072)
    assert (order.topic, order.count, order.language.tag) == ("Volcanoes", 7, "fr-FR")
    assert order.audience == "teachers"
    order = brief.read(
        {"topic": "Volcanoes", "request": "Nice. Now turn this into a deck please"},
        topic("Volcanoes"),
        3072,
    )
    assert (order.topic, order.title, order.count) == ("Volcanoes", "", 10)


async def test_a_documents_deck_is_not_named_after_its_file(tmp_path: Path) -> None:
    """[L1] By the model's title, else the document's own heading, else a readable name."""
    named = await deck_of(ScriptedHost(tmp_path, good), REPORT)
    assert named.title == "Clean power"
    weak = await deck_of(ScriptedHost(tmp_path, lambda _prompt, _schema: "{}"), REPORT)
    assert weak.title == "Annual report of the Northwind Cycling Club"
    plain = document("The mill grinds corn. It was built in stone. " * 9, "annual_report-2024.pdf")
    assert brief.read({}, plain, 3072).topic == "Annual report 2024"
    headed = Source(
        "report.docx", [("", ""), ("section The mill", "The mill\nIt grinds.")], "document"
    )
    assert brief.read({}, headed, 3072).topic == "The mill"
    later = Source(
        "report.docx", [("beginning", "To all."), ("section Minutes", "Minutes\nNo.")], "document"
    )
    assert brief.read({}, later, 3072).topic == "Report"


async def test_numbers_of_the_source_become_native_charts(tmp_path: Path) -> None:
    """[L1]"""
    deck = await deck_of(ScriptedHost(tmp_path, good), REPORT, slides=12)
    charts = [slide.chart for slide in deck.slides if isinstance(slide, ChartSlide)]
    line, pie = sorted(charts, key=lambda chart: chart.kind)
    assert (line.kind, list(line.categories)) == ("line", ["2020", "2021", "2022", "2023", "2024"])
    assert [list(series.values) for series in line.series] == [
        [310, 322, 351, 375, 412],
        [41, 44, 52, 60, 71],
    ]
    assert (pie.kind, pie.unit, list(pie.series[0].values)) == ("pie", "%", [42, 23, 20, 15])


async def test_a_table_that_is_no_chart_stays_a_table(tmp_path: Path) -> None:
    """[L1]"""
    rows = "\n".join(f"| Tool {at} | For the {at}th job | made of steel |" for at in range(5))
    text = f"{REPORT.split('| Year')[0]}\n| Tool | Use | Make |\n|---|---|---|\n{rows}"
    deck = await deck_of(ScriptedHost(tmp_path, good), text, slides=8)
    (table,) = [slide for slide in deck.slides if isinstance(slide, TableSlide)]
    assert list(table.header) == ["Tool", "Use", "Make"]
    assert len(table.rows) == 5


async def test_quotations_are_the_sources_own_words(tmp_path: Path) -> None:
    """[L1]"""
    deck = await deck_of(ScriptedHost(tmp_path, good), REPORT, slides=12)
    (quote,) = [slide for slide in deck.slides if isinstance(slide, QuoteSlide)]
    assert quote.quote.startswith("Nobody remembers who came first")
    assert quote.by == "Maria Lindt"


async def test_numbers_that_the_source_does_not_know_are_left_out(tmp_path: Path) -> None:
    """For a model that invents figures."""

    def inventing(prompt: str, schema: Mapping[str, Any] | None) -> str:
        answer = good(prompt, schema)
        return answer.replace("is saved by", "grew by 777 percent thanks to")

    assert "777" not in words_of(await deck_of(ScriptedHost(tmp_path, inventing), REPORT))


BROKEN = {
    "nothing": "",
    "no JSON": "Sure! Here are your slides, I hope you like them.",
    "an empty object": "{}",
    "other types": '{"sections": 7, "points": "x", "title": [], "notes": {}}',
    "a list": "[1, 2, 3]",
    "empty strings": json.dumps(
        {"title": "", "sections": [{"title": "", "slides": ["", " "]}], "points": [{"text": ""}]}
    ),
    "only digits": json.dumps(
        {"title": "1", "sections": [{"title": "2", "slides": ["3"]}], "points": ["1", "2", "3"]}
    ),
    "stutter": json.dumps({"points": [{"label": "", "text": "the energy is " * 30}]}),
    "deep": '{"points":' + "[" * 5000 + "]" * 5000 + "}",
    "hostile": json.dumps({"points": [{"label": "\x00\x0b", "text": "\ud800\u202e<b>&\x1b[31m"}]}),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
async def test_a_weak_answer_falls_back_to_the_sources_own_sentences(
    tmp_path: Path, answer: str
) -> None:
    """[L1]"""
    host = ScriptedHost(tmp_path, lambda _prompt, _schema: answer)
    result = await PLUGIN.run("create_from_source", {}, document(REPORT), host)
    assert "gave too little" in result.text
    slides = Presentation(str(result.files[0].path)).slides
    frames = [shape for slide in slides for shape in slide.shapes if shape.has_text_frame]
    shown = " ".join(shape.text_frame.text for shape in frames)
    assert "waiting list since May" in shown
    assert "Members" in shown


async def test_an_answer_that_broke_off_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    """[L1]"""

    def cut_off(prompt: str, schema: Mapping[str, Any] | None) -> str:
        answer = good(prompt, schema)
        return answer[: answer.rfind("Nobody")] if kind_of(schema) == "slide" else answer

    deck = await deck_of(ScriptedHost(tmp_path, cut_off), "clean power", slides=6)
    assert "Neighbours learn quickly: Sun on every roof" in words_of(deck)


async def test_without_a_model_a_document_still_makes_a_deck(tmp_path: Path) -> None:
    """[L1]"""
    deck = await deck_of(ScriptedHost(tmp_path, unreachable), REPORT)
    assert isinstance(deck.slides[0], TitleSlide)
    assert "The youth group meets every Saturday" in words_of(deck)


async def test_without_a_model_a_topic_is_refused_in_words(tmp_path: Path) -> None:
    """[L2] A clear message."""
    with pytest.raises(PluginError, match="model gave nothing"):
        await deck_of(ScriptedHost(tmp_path, unreachable), "clean power")


async def test_a_model_that_says_the_same_to_everything_makes_no_deck(tmp_path: Path) -> None:
    """Such as that it cannot help with that."""
    host = ScriptedHost(tmp_path, lambda *_: "I am sorry, but I cannot help with this request.")
    with pytest.raises(PluginError, match="nothing that could stand on a slide"):
        await compose.make(brief.read({}, topic("a topic of some kind"), 4096), host)


async def test_a_source_without_a_word_is_refused_in_words(tmp_path: Path) -> None:
    """[L2]"""
    with pytest.raises(PluginError, match="nothing to make slides of"):
        await deck_of(ScriptedHost(tmp_path, good), " \x00 \n …")


async def test_an_unknown_capability_is_refused_in_words(tmp_path: Path) -> None:
    """[L1]"""
    with pytest.raises(PluginError, match="can only do"):
        await PLUGIN.run("sing", {}, topic("x"), ScriptedHost(tmp_path, good))


async def test_a_cancelled_job_stops_at_its_next_step(tmp_path: Path) -> None:
    """[L2]"""
    host = ScriptedHost(tmp_path, good, cancel_after=3)
    with pytest.raises(Cancelled):
        await PLUGIN.run("create_from_source", {"slides": 9}, topic("clean power"), host)
    assert len(host.asked) == 3
    assert files_in(tmp_path) == []


async def test_no_slide_repeats_another(tmp_path: Path) -> None:
    """For a model that says the same on every slide."""

    def parrot(prompt: str, schema: Mapping[str, Any] | None) -> str:
        if kind_of(schema) == "slide":
            point = {"label": "Always", "text": "The sun always shines somewhere on the earth."}
            answer = {"points": [point] * 3, "notes": "", "layout": "list"}
            return json.dumps({**answer, "left": "", "right": ""})
        return good(prompt, schema)

    shown = words_of(await deck_of(ScriptedHost(tmp_path, parrot), REPORT))
    assert shown.count("The sun always shines") <= 2  # its slide, and what to take home


@pytest.mark.unmeasured
@pytest.mark.parametrize("between", ["\n", " "])
async def test_a_long_document_is_processed_in_pieces_that_fit(
    tmp_path: Path, between: str
) -> None:
    """Every prompt fits the model's window; one line, as a transcript is, is read to its end."""
    text = between.join(
        f"Chapter {at} tells of village {at} and its mill. " * 8 for at in range(400)
    )
    host = ScriptedHost(tmp_path, good, context_tokens=2048)
    await deck_of(host, text, slides=6)
    assert max(len(prompt) for prompt, _schema, _system in host.asked) < 3200
    assert any("village 3 " in prompt or "village 4 " in prompt for prompt, _s, _y in host.asked)
    assert any(re.search(r"village [23]\d\d ", prompt) for prompt, _s, _y in host.asked)


@pytest.mark.parametrize(
    ("request_text", "tag", "about"),
    [
        ("generate a PPT about renewable energy", "en-US", "Renewable energy"),
        ("Please make me 8 slides on the history of tea", "en-US", "The history of tea"),
        ("做一个关于可再生能源的PPT", "zh-CN", "可再生能源"),
        ("請幫我製作關於氣候變遷的簡報", "zh-TW", "氣候變遷"),
        (
            "Erstelle eine Präsentation über Bern",
            "de-DE",
            "Bern",
        ),
        ("Haz una presentación sobre el agua", "es-ES", "El agua"),
        ("Fais une présentation sur les abeilles", "fr-FR", "Les abeilles"),
        ("日本の鉄道についてスライドを作って", "ja-JP", "日本の鉄道"),
        ("أنشئ عرضًا تقديميًا عن الطاقة الشمسية", "ar-SA", "الطاقة الشمسية"),
    ],
)
def test_topic_and_language_are_found_in_the_request(
    request_text: str, tag: str, about: str
) -> None:
    """In the language of the request."""
    order = brief.read({"source": request_text}, topic(request_text), 3072)
    assert (order.language.tag, order.topic) == (tag, about)


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ("Make 100 slides about bees", 40),
        ("Mach 120 Folien über Bienen", 40),
        ("Make a deck of this 300-page report", 10),
        ("Make 7 slides about bees", 7),
    ],
)
def test_more_slides_than_a_deck_may_have_are_the_most(said: str, count: int) -> None:
    assert brief.read({"request": said}, topic("Bees"), 3072).count == count


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        *((None, 10), ("", 10), (7, 7), ("7", 7), (7.0, 7), (1, 3), (9999, 40), (-5, 10)),
        *(("many", 10), (True, 10), ([3], 10), (float("nan"), 10), ("٧", 7), ("1e3", 10)),
    ],
)
def test_any_number_of_slides_becomes_one_that_a_deck_may_have(asked: object, count: int) -> None:
    """From any parameter of a model."""
    assert brief.read({"slides": asked, "language": 7}, topic("tea"), 3072).count == count


def test_the_language_parameter_wins_over_the_language_of_the_text() -> None:
    """A German deck of an English document."""
    order = brief.read({"language": "German", "audience": "children"}, document(REPORT), 3072)
    assert (order.language.tag, order.audience) == ("de-DE", "children")
    assert named("pt-PT") == named("Portuguese")
    assert named("klingon") is None
    assert detect("").tag == "en-US"


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("Gör en presentation om vulkaner på svenska", "Swedish"),
        ("Gör en presentation om vulkaner", "Swedish"),
        ("Lag en presentasjon om vulkaner som passer for barn", "Norwegian"),
        ("Lav en præsentation om vulkaner, og brug ikke for mange ord af fagsproget", "Danish"),
        ("Tee esitys tulivuorista ja siitä, että ne ovat myös kauniita", "Finnish"),
        ("Készíts egy bemutatót a vulkánokról", "Hungarian"),
        ("Buatkan presentasi tentang gunung berapi dan gempa", "Indonesian"),
        ("Make slides about volcanoes in Czech", "Czech"),
        ("Maak een presentatie over vulkanen", "Dutch"),
        ("Mach Folien über Vulkane und das Wetter", "German"),
        ("Create slides about the sea and a boat", "English"),
        ("Crea una presentación sobre la historia de los volcanes", "Spanish"),
        ("Faça uma apresentação sobre vulcões", "Portuguese"),
        ("Haz diapositivas de la historia de un país", "Spanish"),
        ("Fais un diaporama en couleur sur la mer", "French"),
        ("Könnten Sie einen Foliensatz zur Französischen Revolution vorbereiten?", "German"),
        ("Kun je dia's maken over je werk en de zee", "Dutch"),
        ("Slides at work: what we care for", "English"),
        ("Зроби презентацію про вулкани", "Ukrainian"),
        ("Crie slides sobre energia solar, por favor", "Portuguese"),
        ("Segurança do trabalho", "Portuguese"),
        ("Güneş enerjisi ve geleceği", "Turkish"),
        ("Energia i środowisko", "Polish"),
        ("总结 https://www.example.com/news/a-long-article-about-energy", "Simplified Chinese"),
    ],
)
def test_a_deck_has_the_language_of_the_request(request_: str, name: str) -> None:
    parameters = {"request": request_, "slides": 5}
    assert brief.read(parameters, topic("Vulkaner"), 4096).language.name == name
    assert named(name) is not None
    assert named("no") == named("Norwegian")


def test_the_request_decides_the_language_of_a_documents_deck() -> None:
    """[L1] "mach Folien daraus" about an English document."""
    order = brief.read({"request": "Mach bitte Folien daraus"}, document(REPORT), 3072)
    assert order.language.tag == "de-DE"


async def test_audience_and_language_are_in_the_prompt(tmp_path: Path) -> None:
    """[L1]"""
    host = ScriptedHost(tmp_path, good)
    await deck_of(host, "clean power", audience="children of ten", language="es")
    assert all("Spanish" in system and "children of ten" in system for _p, _s, system in host.asked)
