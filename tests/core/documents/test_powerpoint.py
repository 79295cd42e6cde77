"""Charts, diagrams and formulas of a slide are read as its text boxes and tables are."""

from pathlib import Path

import pptx
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.oxml import parse_xml
from pptx.util import Cm

from core.documents.reader import slides_of_pptx

SPACES = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
)
FORMULA = """<mc:AlternateContent {spaces}><mc:Choice Requires="a14"><p:sp><p:txBody><a:p>
<a:r><a:t>Force is </a:t></a:r><a14:m><m:oMath><m:r><m:t>m·a</m:t></m:r></m:oMath></a14:m></a:p>
<a:p><a:r><a:t>First</a:t></a:r><a:br/><a:r><a:t>second</a:t></a:r></a:p></p:txBody></p:sp></mc:Choice>
<mc:Fallback><p:sp><p:txBody><a:p><a:r><a:t>No formula here</a:t></a:r></a:p></p:txBody></p:sp>
</mc:Fallback></mc:AlternateContent>"""
SMART_ART = """<p:graphicFrame {spaces}><a:graphic><a:graphicData><dgm:relIds r:dm="{name}"/>
</a:graphicData></a:graphic></p:graphicFrame>"""
STEPS = """<dgm:dataModel {spaces}><dgm:ptLst><dgm:pt><dgm:t><a:p><a:r><a:t>Plan</a:t></a:r></a:p>
</dgm:t></dgm:pt><dgm:pt><dgm:t><a:p><a:r><a:t>Build</a:t></a:r></a:p></dgm:t></dgm:pt>
</dgm:ptLst></dgm:dataModel>"""
COMMENTS = "<p:cmLst {spaces}><p:cm><p:text>Too long</p:text></p:cm></p:cmLst>"
TALK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/comments"
DATA = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/diagramData"


def test_charts_diagrams_and_boxes_with_formulas_are_read(tmp_path: Path) -> None:
    made = pptx.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[5])
    slide.shapes.title.text = "Our year"
    data = CategoryChartData()
    data.categories = ["Q1", "Q2"]
    data.add_series("Sales", (5, 7.5))
    data.add_series("Costs", (4, 3))
    box = (Cm(2), Cm(2), Cm(8), Cm(8))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *box, data)
    steps = STEPS.format(spaces=SPACES).encode()
    place, kind = PackURI("/ppt/diagrams/data1.xml"), "application/xml"
    name = slide.part.relate_to(Part(place, kind, made.part.package, steps), DATA)
    tree = slide.shapes.element
    tree.append(parse_xml(SMART_ART.format(spaces=SPACES, name=name)))
    tree.append(parse_xml(FORMULA.format(spaces=SPACES)))
    slide.notes_slide.notes_text_frame.text = "Say it\vslowly"
    said = COMMENTS.format(spaces=SPACES).encode()
    place = PackURI("/ppt/comments/comment1.xml")
    slide.part.relate_to(Part(place, kind, made.part.package, said), TALK)
    made.save(str(tmp_path / "a.pptx"))
    ((reference, text),) = slides_of_pptx(tmp_path / "a.pptx")
    assert (reference, text.split("\n")) == (
        "slide 1",
        [
            "Our year",
            "Chart",
            " | Sales | Costs",
            "Q1 | 5 | 4",
            "Q2 | 7.5 | 3",
            "Plan",
            "Build",
            "Force is m·a",
            "First",
            "second",
            "Say it",
            "slowly",
            "[comment] Too long",
        ],
    )
