"""HTML as a browser shows it: words whole, rows of tables in a line each."""

import time
from pathlib import Path

import pytest

from core.documents.reader import sections_of_html


def lines_of(folder: Path, page: str) -> list[str]:
    """Return the lines that are read of a page."""
    (folder / "a.html").write_text(f"<!doctype html><html><body>{page}</body></html>")
    return [line for _, text in sections_of_html(folder / "a.html") for line in text.split("\n")]


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("<p>The <b>price</b> is <i>5</i> €.</p>", ["The price is 5 €."]),
        ("<p>H<sub>2</sub>O, 10<sup>6</sup>, <b>W</b>ord<sup>[1]</sup>", ["H2O, 10^6, Word[1]"]),
        ("one<br>two<!-- no -->three", ["one", "twothree"]),
        ("<pre>def a():\n    return 1\n</pre>", ["def a():", "    return 1"]),
        ("<ul><li>one</li><li>two <a href='x'>link</a></li></ul>", ["one", "two link"]),
        ("<style>p{}</style><script>x()</script><template>no</template>yes", ["yes"]),
        ("<h1><span>A</span> title</h1><p>text", ["", "A title", "text"]),
        ("<div>a<div>b</div>c</div>", ["a", "b", "c"]),
    ],
)
def test_lines_are_those_of_the_page(page: str, lines: list[str], tmp_path: Path) -> None:
    assert lines_of(tmp_path, page) == lines


def test_rows_of_tables_keep_their_columns(tmp_path: Path) -> None:
    page = (
        "<table><tr><th>Name<th>Size<th>Sum</tr>\n<tr><td><p>Ada</p></td> <td></td>\n"
        "<td><b>5</b> €</td></tr><tr><td></td><td>7</td><td>8</td></tr></table>after"
    )
    assert lines_of(tmp_path, page) == [
        "Name | Size | Sum",
        "Ada | | 5 €",
        "| 7 | 8",
        "after",
    ]


def test_a_row_of_very_many_cells_costs_no_time(tmp_path: Path) -> None:
    """Each went on in the line of the one before, which was read anew."""
    start = time.process_time()
    lines = lines_of(tmp_path, "<table><tr>" + "<td>word<br></td>" * 10_000 + "</tr></table>")
    assert time.process_time() - start < 2
    assert " ".join(lines).count("word") == 10_000
    assert max(map(len, lines)) < 5_000
