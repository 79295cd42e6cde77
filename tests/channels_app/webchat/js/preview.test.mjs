// The preview of Markdown while it streams.
import assert from "node:assert/strict";
import { test } from "node:test";

const { parseBlocks, parseInline, settledUpTo } = await import(`${process.env.LATCHKEY_JS}/preview.js`);

const types = (text) => parseBlocks(text).map((block) => block.type);
const flat = (pieces) => pieces.map((p) => (p.children ? `<${p.type}>${flat(p.children)}</>` : p.type === "text" ? p.text : `<${p.type}>${p.text}</>`)).join("");
const inline = (text) => flat(parseInline(text));

test("blocks are recognised", () => {
  assert.deepEqual(
    types("# H\n\npara\nmore\n\n- a\n- b\n\n1. x\n\n> q\n\n---\n\n```py\ncode\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"),
    ["heading", "paragraph", "list", "list", "quote", "rule", "code", "table"],
  );
});

test("the marks that close a heading are not its text, and where a line ends does not matter", () => {
  const texts = ["# a ##", "# a#", "# #", "## ", "# a # b  #  ", "# a\r"].map((text) => parseBlocks(text)[0].text);
  assert.deepEqual(texts, ["a", "a#", "#", "", "a # b", "a"]);
  assert.deepEqual(types("- a\r\n- b\r"), ["list"]);
});

test("a fence that is still open is code, whatever it holds", () => {
  const [block, ...rest] = parseBlocks("```html\n<b>\n\n# not a heading\n- no list");
  assert.equal(rest.length, 0);
  assert.deepEqual(block, { type: "code", language: "html", text: "<b>\n\n# not a heading\n- no list" });
});

test("lists nest and keep their numbers", () => {
  const [list] = parseBlocks("3. a\n   - b\n   - c\n4. d");
  assert.equal(list.start, 3);
  assert.equal(list.items.length, 2);
  assert.equal(list.items[0][1].items.length, 2);
});

test("an item may be a task, open or done", () => {
  const [list] = parseBlocks("- [ ] a\n- [x] b\n- [y] c\n- [ ]");
  const [open, done, ...others] = list.items.map(([paragraph]) => paragraph);
  assert.deepEqual([open.text, open.isDone, done.text, done.isDone], ["a", false, "b", true]);
  assert.deepEqual(others.map(({ text, isDone }) => [text, isDone]), [["[y] c", undefined], ["[ ]", undefined]]);
});

test("table cells are split and aligned", () => {
  const [table] = parseBlocks("| a | b | c |\n|---|:-:|--:|\n| 1 | x \\| y | 3 |");
  assert.deepEqual(table.head, ["a", "b", "c"]);
  assert.deepEqual(table.align, ["", "center", "right"]);
  assert.deepEqual(table.rows, [["1", "x | y", "3"]]);
});

test("an index before brackets is no link", () => {
  assert.equal(inline("fns[0](e.data) f[k]() see[1](https://e.org)"), "fns[0](e.data) f[k]() see<link>1</>");
});

test("footnotes are raised", () => {
  assert.equal(inline("Salt[^1], [^a-z]\n[^1]: sea"), "Salt<sup>1</>, [^a-z]\n<sup>1</>: sea");
});

test("inline marks", () => {
  assert.equal(inline("a **b** *c* `d` ~~e~~ __f__ _g_"), "a <strong>b</> <em>c</> <code>d</> <del>e</> <strong>f</> <em>g</>");
  assert.equal(inline("**Volume:** 10*20*30, 2**10 and 2**16, un*b*c"), "<strong>Volume:</> 10*20*30, 2**10 and 2**16, un*b*c");
  assert.equal(inline("**a *b* c**"), "<strong>a <em>b</> c</>");
  assert.equal(inline("``a ` b``"), "<code>a ` b</>");
  assert.equal(inline("\\*not\\*"), "*not*");
  assert.equal(inline("و`a` ה**ב** و*ب*"), "و<code>a</> ה<strong>ב</> و<em>ب</>");
});

test("tags that models write are styles and breaks", () => {
  assert.equal(inline("H<sub>2</sub>O <b>a <i>b</i></b> <code>c</code>"), "H<sub>2</>O <strong>a <em>b</></> <code>c</>");
  assert.deepEqual(parseInline("a<br>b<br />\nc").map((piece) => piece.type), ["text", "br", "text", "br", "text"]);
  assert.equal(inline("<summary> More </summary>"), "<strong> More </>");
  assert.equal(inline("<b>Name: </b>Ada"), "<strong>Name: </>Ada");
  assert.equal(inline("<details>\n<summary>More</summary>\nb\n</details>"), "<strong>More</>\nb\n");
  assert.equal(parseBlocks("> [!WARNING]\n> Hot")[0].blocks[0].text, "**Warning:**\nHot");
});

test("what is no mark stays as it is", () => {
  for (const text of ["<b>open", "use <b> and </b> here", "<details> here", "List<String>", "<b onclick=x>y</b>", "2 * 3 * 4", "snake_case_name", "*.py and *.js", "a ** b", "5* hotel", "**open", "`open", "[open](", "!", "the __init__.py file", "call __init__ and __new__", "obj.__dict__[0]", "f.__x__", "can`t and won`t"]) {
    assert.equal(inline(text), text);
  }
});

test("links and images have no address: nothing can be clicked or loaded before the end", () => {
  assert.deepEqual(parseInline("[t](javascript:x) ![i](https://evil/x)"), [
    { type: "link", children: [{ type: "text", text: "t" }] },
    { type: "text", text: " " },
    { type: "link", children: [{ type: "text", text: "i" }] },
  ]);
});

test("settled text never changes its blocks, however it goes on", () => {
  const text = "# A\n\npara\n\n- a\n\n  more of a\n\n- b\n\n```\nx\n\ny\n```\n\nend of it\n\nlast";
  for (let cut = 0; cut <= text.length; cut += 1) {
    const settled = settledUpTo(text.slice(0, cut));
    const whole = JSON.stringify(parseBlocks(text));
    const parts = [...parseBlocks(text.slice(0, settled)), ...parseBlocks(text.slice(settled))];
    assert.equal(JSON.stringify(parts), whole, `cut at ${cut}`);
  }
});

test("settling goes on from where it was", () => {
  const text = "one\n\ntwo\n\nthree\n\nfour";
  const first = settledUpTo(text.slice(0, 8));
  assert.equal(settledUpTo(text, first), settledUpTo(text));
});

// The CPU of this process: other work on the machine does not count.
const spent = () => process.cpuUsage().user / 1000;

test("no text breaks it, and none takes long", () => {
  const marks = ["[", "*", "_", "`", ">", "- ", "1. ", "#", "|", "~", "[a](", "**a", "*a_", "\n", " ", "> - ", "\\", "<b>", "<br", "<details>"];
  for (const mark of marks) {
    const text = mark.repeat(Math.ceil(20_000 / mark.length));
    const before = spent();
    parseBlocks(text).forEach((block) => block.text && parseInline(block.text));
    settledUpTo(text);
    assert.ok(spent() - before < 1000, `${JSON.stringify(mark)} took ${spent() - before} ms`);
  }
  const lines = [["# a", " ", "b"], ["```", " ", "`"], ["", "~", "`"], ["|\n-", " ", "x"], ["- ", " ", "\u2028"]];
  for (const [start, fill, end] of lines) {
    const before = spent();
    parseBlocks(start + fill.repeat(40_000) + end);
    assert.ok(spent() - before < 1000, `${JSON.stringify([start, fill, end])} took long`);
  }
  for (const short of ["", "\n", "|", "|\n|-", "```", ">", "- ", "1.", "[](", "****", "a".repeat(100_000)]) {
    parseBlocks(short);
    parseInline(short);
  }
});

test("a run of backticks is read once, whole", () => {
  const before = spent();
  inline("`".repeat(5900)); // just below the length that is not read at all
  assert.ok(spent() - before < 1000);
  assert.equal(inline("```a`"), "```a`"); // as in CommonMark
});

test("code may hold a run of backticks that is longer than its own", () => {
  assert.equal(inline("` ``a `, `b``` c`"), "<code>``a</>, <code>b``` c</>");
});
