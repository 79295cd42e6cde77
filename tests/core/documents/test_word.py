"""Notes, comments, charts, numbers and formulas of Word are read as its paragraphs are."""

from pathlib import Path
from typing import Any

import docx
import pytest
from docx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml

from core.documents.numbering import written
from core.documents.reader import sections_of_docx

SPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)


def xml(inner: str) -> Any:
    """Return an element of Word's with its namespaces."""
    name, _, rest = inner.partition(">")
    return parse_xml(f"{name} {SPACES}>{rest}")


def with_part(made: Any, kind: str, content_type: str, inner: str) -> str:
    """Add a part to a document; return the id by which its text names it."""
    name, _, rest = inner.partition(">")
    blob = f"{name} {SPACES}>{rest}".encode()
    part = Part(PackURI(f"/word/{kind[-9:]}.xml"), content_type, blob, made.part.package)
    found: str = made.part.relate_to(part, kind)
    return found


def read(made: Any, folder: Path) -> dict[str, str]:
    """Return the sections of a document, by their references."""
    made.save(str(folder / "a.docx"))
    return {name: text for name, text in sections_of_docx(folder / "a.docx") if text.strip()}


def note(kind: str, number: int) -> str:
    return f'<w:r><w:{kind}Reference w:id="{number}"/></w:r>'


def said(kind: str, number: int, text: str) -> str:
    """Return a note of Word's."""
    words = f"<w:p><w:r><w:{kind}Ref/></w:r><w:r><w:t> {text}</w:t></w:r></w:p>"
    return f'<w:{kind} w:id="{number}">{words}</w:{kind}>'


def test_notes_are_read_with_the_numbers_that_the_page_shows(tmp_path: Path) -> None:
    made = docx.Document()
    paragraph = made.add_paragraph("It pays")
    for number, words in ((7, " at once"), (3, " or later.")):
        paragraph._p.append(xml(note("footnote", number)))
        paragraph.add_run(words)
    notes = said("footnote", 3, "With interest.") + said("footnote", 7, "By card only.")
    kind, content = RELATIONSHIP_TYPE.FOOTNOTES, CONTENT_TYPE.WML_FOOTNOTES
    with_part(made, kind, content, f"<w:footnotes >{notes}</w:footnotes>")
    assert read(made, tmp_path) == {
        "": "It pays[footnote 1] at once[footnote 2] or later.",
        "footnotes": "[footnote 1] By card only.\n[footnote 2] With interest.",
    }


def test_styles_without_a_type_are_those_of_paragraphs(tmp_path: Path) -> None:
    """As some programs write them; python-docx refuses them all."""
    made = docx.Document()
    made.styles.element.append(
        xml('<w:style w:styleId="Mine"><w:name w:val="heading 2"/></w:style>')
    )
    made.styles.element.append(xml('<w:style w:type="odd" w:styleId="Odd"></w:style>'))
    made.add_paragraph("It pays")._p.style = "Mine"
    made.add_paragraph("at once")._p.style = "Odd"
    assert read(made, tmp_path) == {"section It pays": "It pays\nat once"}


def test_comments_and_the_head_of_the_pages_are_read(tmp_path: Path) -> None:
    made = docx.Document()
    run = made.add_paragraph("We ship in May.").runs[0]
    made.add_comment(run, text="June, rather.", author="Ann", initials="A")
    made.sections[0].header.paragraphs[0].text = "Mill Ltd, Oberried"
    found = read(made, tmp_path)
    assert found[""] == "We ship in May.[comment 1]"
    assert found["comments"] == "[comment 1] Ann: June, rather."
    assert found["page header"] == "Mill Ltd, Oberried"


def test_a_chart_is_read_with_its_numbers(tmp_path: Path) -> None:
    made = docx.Document()
    points = "".join(f'<c:pt idx="{at}"><c:v>{at + 2020}</c:v></c:pt>' for at in range(2))
    points += '<c:pt idx="x"><c:v>lost</c:v></c:pt>'  # the rest of the document is read
    values = "".join(f'<c:pt idx="{at}"><c:v>{at + 7}.5</c:v></c:pt>' for at in range(2))
    series = (
        "<c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>Flour</c:v></c:pt></c:strCache>"
        f"</c:strRef></c:tx><c:cat><c:numRef><c:numCache>{points}</c:numCache></c:numRef></c:cat>"
        f"<c:val><c:numRef><c:numCache>{values}</c:numCache></c:numRef></c:val></c:ser>"
    )
    chart = f"<c:chartSpace ><c:chart><c:plotArea>{series}</c:plotArea></c:chart></c:chartSpace>"
    kind, content = RELATIONSHIP_TYPE.CHART, CONTENT_TYPE.DML_CHART
    name = with_part(made, kind, content, chart)
    drawn = f'<a:graphic><a:graphicData><c:chart r:id="{name}"/></a:graphicData></a:graphic>'
    run = made.add_paragraph("Sales:").add_run()
    run._r.append(xml(f"<w:drawing >{drawn}</w:drawing>"))
    assert read(made, tmp_path)[""] == "Sales:\nChart\n | Flour\n2020 | 7.5\n2021 | 8.5"


def test_raised_numbers_formulas_and_symbols_keep_their_meaning(tmp_path: Path) -> None:
    made = docx.Document()
    line = made.add_paragraph("10")
    line.add_run("6").font.superscript = True
    line.add_run(" cells, 5 ")
    line.add_run()._r.append(xml('<w:sym w:font="Symbol" w:char="F06D"></w:sym>'))
    line.add_run("g on the 2")
    line.add_run("nd").font.superscript = True
    word, sup = "<m:r><m:t>{}</m:t></m:r>".format, "<m:sSup><m:e>{}</m:e><m:sup>{}</m:sup></m:sSup>"
    half = f"<m:f><m:num>{word('1')}</m:num><m:den>{word('a+2')}</m:den></m:f>"
    sides = f"<m:d><m:e>{word('x−y')}</m:e></m:d>"
    formula = sup.format(word("10"), word("−3")) + half + sup.format(sides, word("2"))
    made.add_paragraph("= ")._p.append(xml(f"<m:oMath >{formula}</m:oMath>"))
    assert read(made, tmp_path)[""] == "10^6 cells, 5 μg on the 2nd\n= 10^(−3)1/(a+2)(x−y)^2"


@pytest.mark.parametrize("code", ["-5", "x", "", "D800", "FFFFFFFFFF", "E000"])
@pytest.mark.parametrize("font", ["Arial", "Symbol"])
def test_a_symbol_without_a_character_leaves_the_rest(tmp_path: Path, font: str, code: str) -> None:
    made = docx.Document()
    line = made.add_paragraph("before")
    line.add_run()._r.append(xml(f'<w:sym w:font="{font}" w:char="{code}"></w:sym>'))
    line.add_run("after")
    assert read(made, tmp_path)[""] == "beforeafter"


def level(depth: int, form: str, text: str, style: str = "", more: str = "") -> str:
    """Return how a list counts at a depth."""
    linked = f'<w:pStyle w:val="{style}"/>' if style else ""
    return (
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{linked}{more}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def test_clauses_are_read_with_their_numbers(tmp_path: Path) -> None:
    made = docx.Document()
    levels = level(0, "decimal", "%1.", "Heading1") + level(1, "decimal", "%1.%2")
    letters = level(0, "lowerLetter", "(%1)") + level(1, "upperRoman", "%2.")
    lists = (
        f'<w:abstractNum w:abstractNumId="91">{levels}</w:abstractNum>'
        f'<w:abstractNum w:abstractNumId="92">{letters}</w:abstractNum>'
        '<w:num w:numId="91"><w:abstractNumId w:val="91"/></w:num>'
        '<w:num w:numId="92"><w:abstractNumId w:val="92"/></w:num>'
        '<w:num w:numId="93"><w:abstractNumId w:val="92"/><w:lvlOverride w:ilvl="0">'
        '<w:startOverride w:val="1"/></w:lvlOverride></w:num>'
    )
    numbering = made.part.numbering_part.element
    for each in xml(f"<w:numbering >{lists}</w:numbering>"):
        numbering.append(each)
    style = made.styles["Heading 1"].element
    style.get_or_add_pPr().append(xml('<w:numPr ><w:numId w:val="91"/></w:numPr>'))
    for words, number, depth in (
        ("Price", None, 0),
        ("It is due at once.", 91, 1),
        ("By card.", 92, 0),
        ("In coins.", 92, 0),
        ("Late payers wait.", 91, 1),
        ("Again.", 93, 0),
        ("Deeper.", 93, 1),
        ("Term", None, 0),
        ("One year.", 91, 1),
    ):
        paragraph = made.add_paragraph(words, style=None if number else "Heading 1")
        if number:
            own = f'<w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/>'
            paragraph._p.get_or_add_pPr().append(xml(f"<w:numPr >{own}</w:numPr>"))
    assert read(made, tmp_path) == {
        "section 1. Price": (
            "1. Price\n1.1 It is due at once.\n(a) By card.\n(b) In coins.\n"
            "1.2 Late payers wait.\n(a) Again.\nI. Deeper."
        ),
        "section 2. Term": "2. Term\n2.1 One year.",
    }


def test_a_contract_is_read_with_the_numbers_that_its_parties_cite(tmp_path: Path) -> None:
    """Word's own "Article I. Section 1.01" has legal numbers; its clauses go on through the
    articles, and bullets are no numbers.
    """
    made = docx.Document()
    levels = level(0, "upperRoman", "Article %1.")
    levels += level(1, "decimalZero", "Section %1.%2", more="<w:isLgl/>")
    levels += level(2, "decimal", "§ %3", more='<w:lvlRestart w:val="0"/>')
    levels += level(3, "lowerLetter", "(%4)", more='<w:lvlRestart w:val="1"/>')
    lists = (
        f'<w:abstractNum w:abstractNumId="91">{levels}</w:abstractNum>'
        '<w:num w:numId="91"><w:abstractNumId w:val="91"/></w:num>'
    )
    numbering = made.part.numbering_part.element
    for each in xml(f"<w:numbering >{lists}</w:numbering>"):
        numbering.append(each)
    for depth in (0, 1, 1, 2, 3, 1, 2, 3, 0, 1, 2, 3):
        paragraph = made.add_paragraph()
        own = f'<w:ilvl w:val="{depth}"/><w:numId w:val="91"/>'
        paragraph._p.get_or_add_pPr().append(xml(f"<w:numPr >{own}</w:numPr>"))
    made.add_paragraph("Flour", style="List Bullet")
    assert [line.strip() for line in read(made, tmp_path)[""].splitlines()] == [
        *("Article I.", "Section 1.01", "Section 1.02", "§ 1", "(a)", "Section 1.03", "§ 2", "(b)"),
        *("Article II.", "Section 2.01", "§ 3", "(a)", "Flour"),
    ]


def test_numbers_of_an_odd_document_leave_the_rest(tmp_path: Path) -> None:
    """A level that is not there, one below none, and styles that are based on each other."""
    made = docx.Document()
    levels = level(0, "decimal", "%1/%9") + level(1, "decimal", "%1.%2")
    lists = (
        f'<w:abstractNum w:abstractNumId="91">{levels}</w:abstractNum>'
        '<w:num w:numId="91"><w:abstractNumId w:val="91"/></w:num>'
    )
    for each in xml(f"<w:numbering >{lists}</w:numbering>"):
        made.part.numbering_part.element.append(each)
    for one, other in ("XY", "YX"):
        about = f'<w:name w:val="{one}"/><w:basedOn w:val="{other}"/>'
        style = f'<w:style w:type="paragraph" w:styleId="{one}">{about}</w:style>'
        made.styles.element.append(xml(style))
    for depth in (1, 0):
        own = f'<w:ilvl w:val="{depth}"/><w:numId w:val="91"/>'
        paragraph = made.add_paragraph("Price")
        paragraph._p.get_or_add_pPr().append(xml(f"<w:numPr >{own}</w:numPr>"))
    made.add_paragraph("Term")._p.style = "X"
    assert read(made, tmp_path) == {"": "1.1 Price\n1/1 Price\nTerm"}


def test_headings_are_numbered_at_the_depth_of_their_styles(tmp_path: Path) -> None:
    """By the list's link to a style, the style's parent, or the paragraph itself; a list may begin
    at another number, and a switch may be off.
    """
    made = docx.Document()
    levels = level(0, "upperLetter", "%1.", "Heading1")
    levels += level(1, "decimal", "%1.%2", "Heading2", more='<w:isLgl w:val="0"/>')
    lists = (
        f'<w:abstractNum w:abstractNumId="91">{levels}</w:abstractNum>'
        '<w:num w:numId="91"><w:abstractNumId w:val="91"/><w:lvlOverride w:ilvl="0">'
        '<w:startOverride w:val="27"/></w:lvlOverride></w:num>'
    )
    for each in xml(f"<w:numbering >{lists}</w:numbering>"):
        made.part.numbering_part.element.append(each)
    for name in ("Heading 1", "Heading 2"):
        element = made.styles[name].element
        element.get_or_add_pPr().append(xml('<w:numPr ><w:numId w:val="91"/></w:numPr>'))
    about = '<w:name w:val="Mine"/><w:basedOn w:val="Heading2"/>'
    made.styles.element.append(
        xml(f'<w:style w:type="paragraph" w:styleId="Mine">{about}</w:style>')
    )
    for style in ("Heading1", "Heading2", "Mine", "Heading1"):
        made.add_paragraph("x")._p.style = style
    last = made.add_paragraph("x")._p
    last.style = "Heading2"
    last.get_or_add_pPr().append(xml('<w:numPr ><w:ilvl w:val="0"/></w:numPr>'))
    text = "\n".join(read(made, tmp_path).values())
    assert text == "AA. x\nAA.1 x\nAA.2 x\nBB. x\nCC. x"


@pytest.mark.parametrize(
    ("number", "form", "text"),
    [
        *((1994, "upperRoman", "MCMXCIV"), (3999, "lowerRoman", "mmmcmxcix")),
        *((4000, "upperRoman", "4000"), (0, "lowerRoman", "0"), (0, "upperLetter", "0")),
        *((26, "lowerLetter", "z"), (27, "upperLetter", "AA"), (53, "lowerLetter", "aaa")),
        *((7, "decimalZero", "07"), (12, "decimalZero", "12"), (3, "chicago", "3")),
    ],
)
def test_numbers_have_the_form_that_word_shows(number: int, form: str, text: str) -> None:
    assert written(number, form) == text
