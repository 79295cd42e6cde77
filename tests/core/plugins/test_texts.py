"""Texts on slides keep what they say."""

import time

import pytest

from core.plugins.slides import asked
from core.plugins.slides.answers import invented, numbers_of, parsed, points_of
from core.plugins.slides.maker import file_name
from core.plugins.slides.texts import plain, sentences, title


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2**10 is 1024, 2**16 is 65536", "2**10 is 1024, 2**16 is 65536"),
        ("**Rent** is *not* due, ~~never~~", "Rent is *not* due, never"),
        ("文字**粗体**文字", "文字粗体文字"),
        ("**Wich**tig", "Wichtig"),
        ("> 50 % of all users", "> 50 % of all users"),
        ("> a quotation", "a quotation"),
        ("+ 12 % a year", "+ 12 % a year"),
        ("3. Oktober 1990", "3. Oktober 1990"),
        ("19. Jahrhundert", "19. Jahrhundert"),
        ("3. Open the window", "Open the window"),
        ("1. Design it", "Design it"),
        ("2. Maintain it", "Maintain it"),
        ("4. Dez. 2024", "4. Dez. 2024"),
        ("- first\n- second", "first second"),
    ],
)
def test_only_marks_of_markdown_are_left_out(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Understanding "Deep Learning"', 'Understanding "Deep Learning"'),
        ("“Big Bang” theory", "“Big Bang” theory"),
        ('"Big Bang" or "Big Crunch"', '"Big Bang" or "Big Crunch"'),
        ('"The Big Bang."', "The Big Bang"),
        ("„Der Urknall“", "Der Urknall"),
        ("'The end'", "The end"),
        ("The students' year", "The students' year"),
        ('"Broken off', "Broken off"),
        ("Costs:", "Costs"),
    ],
)
def test_a_heading_keeps_quotes_that_are_not_around_it(text: str, shown: str) -> None:
    assert title(text) == shown


@pytest.mark.parametrize("name", ["जलवायु परिवर्तन", "การเปลี่ยนแปลง", "Café 2"])
def test_the_name_of_a_file_keeps_the_marks_of_its_letters(name: str) -> None:
    assert file_name(name) == name


def test_the_name_of_a_file_keeps_no_part_of_an_emoji() -> None:
    """The selector of a heart's colour shows nothing, and a keycap is no letter's mark."""
    assert file_name("Our \u2764\ufe0f 2\ufe0f\u20e3 plans") == "Our 2 plans"


def test_points_in_hindi_are_no_repeats_of_each_other() -> None:
    said = [
        {"label": "नदी", "text": "नदी का पानी खेतों को सींचता है।"},
        {"label": "वन", "text": "पेड़ हवा को साफ़ रखते हैं और छाया देते हैं।"},
        {"label": "ऊर्जा", "text": "सूरज की किरणों से बिजली बनती है।"},
        {"label": "लोग", "text": "गाँव के लोग मिलकर कुएँ की देखभाल करते हैं।"},
    ]
    found = points_of(said, heading="प्रकृति और हम", earlier=(), numbers=None)
    assert [point.text for point in found] == [each["text"] for each in said]


@pytest.mark.parametrize(
    ("source", "point"),
    [
        ("درآمد ۱۲۵۰ تومان", "درآمد 1250 تومان"),
        ("売上は２０２４年に増えた", "2024年に売上が増えた"),
        ("Le loyer est de 12 500 €.", "The rent is €12,500."),
        ("The rent is 12,500 €.", "Le loyer est de 12 500 €."),
    ],
)
def test_a_number_of_the_source_is_known_however_it_is_written(source: str, point: str) -> None:
    assert not invented(point, numbers_of(source))
    assert invented("It is 777", numbers_of(source))


def test_rows_of_two_cells_are_no_sentences() -> None:
    """As of an Excel sheet: they stood on slides as points."""
    text = "Month | Sales\nJanuary | 500\nSales rose fast in June."
    assert sentences(text) == ["Sales rose fast in June."]


def test_dots_within_a_request_cost_no_time() -> None:
    """As of a table of contents: each one doubled it, and the worker did nothing else."""
    start = time.process_time()
    found = asked.read(f"Slides about cats{'.' * 100} and dogs{' .' * 50} of Rome, please.")
    assert time.process_time() - start < 0.5
    assert found.is_order
    assert found.topic.startswith("Cats")


@pytest.mark.parametrize(
    "answer",
    [
        'Here: {"title": "T", "points": [{"text": "a"}, {"text": "b"}]} That is {all}.',
        '{"title": "T", "points": [{"text": "a"}, {"text": "b"}, {"text": "c',
        '{"title": "T", "points": [{"text": "a"}, {"text": "b"}, ]}',
        '{"title": "T", "points": [{"text": "a"}, {"text": "b"}, {"text": "two\nlines',
        '{"title": "T", "points": [{"text": "a"} {"text": "b"}]}',
        '{"title": "T", "points": [{"text": "a", "label": "the "x" of"}, {"text": "b"}]}',
        '{"title": "T", "points": [{"text": "a"}, {"text": "b", "note": "two\nlines"}]}',
        '```json\n{"title": "T", "points": [{"text": "a"}, {"text": "b"}]\n```',
    ],
)
def test_an_answer_that_is_no_json_keeps_its_points(answer: str) -> None:
    """Weak models break off, and forget commas and to escape."""
    found = parsed(answer)
    assert found["title"] == "T"
    assert [each["text"] for each in found["points"] if "text" in each] == ["a", "b"]


def test_a_brace_in_an_answer_that_broke_off_is_no_end_of_it() -> None:
    assert parsed('{"label": "Of {x}", "text": "a", "more": "b') == {"label": "Of {x}", "text": "a"}
    assert parsed("none")["points"] == []
