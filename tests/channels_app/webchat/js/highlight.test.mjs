// Colours of code: what is found, that nothing is lost, and that it costs a straight line.
import assert from "node:assert/strict";
import { test } from "node:test";

const { pieces } = await import(`${process.env.LATCHKEY_JS}/highlight.js`);

const found = (code, language, kind) => pieces(code, language).filter(([each]) => each === kind).map(([, text]) => text);

test("python", () => {
  const code = "@cache\ndef area(r: float) -> float:\n    '''It isn't'''\n    # a comment\n    return 3.14 * r ** 2  # it's\n";
  assert.deepEqual(found(code, "python", "keyword"), ["def", "return"]);
  assert.deepEqual(found(code, "python", "name"), ["@cache", "area"]);
  assert.deepEqual(found(code, "python", "comment"), ["# a comment", "# it's"]);
  assert.deepEqual(found(code, "python", "number"), ["3.14", "2"]);
  assert.deepEqual(found(code, "python", "string"), ["'''It isn't'''"]);
});

test("prefixed strings, and apostrophes that begin none", () => {
  assert.deepEqual(found('print(f"{x}", b\'y\')', "py", "string"), ['"{x}"', "'y'"]);
  assert.deepEqual(found("note: it doesn't matter\nnext: 1", "yaml", "string"), []);
});

test("the families: comments, keywords in any case, keys, elements", () => {
  assert.deepEqual(found("let a = 1; // one\n/* two\n*/", "TypeScript", "comment"), ["// one", "/* two\n*/"]);
  assert.deepEqual(found("SELECT a FROM b -- all", "sql", "keyword"), ["SELECT", "FROM"]);
  assert.deepEqual(found('{"a": [1, true, "b"]}', "json", "name"), ['"a"']);
  assert.deepEqual(found('{"a": [1, true, "b"]}', "json", "keyword"), ["true"]);
  assert.deepEqual(found('<a href="x"><!-- c --></a>', "html", "keyword"), ["<a", ">", "</a", ">"]);
  assert.deepEqual(found('<a href="x">', "html", "name"), ["href"]);
  assert.deepEqual(found("echo $# \"$1\" # last", "bash", "comment"), ["# last"]);
  assert.deepEqual(found("+a\n-b\n c\n@@ 1 @@", "diff", "added"), ["+a\n"]);
});

test("a language that is not known, and very long code, stay as they are", () => {
  assert.deepEqual(pieces("def a", "klingon"), [["", "def a"]]);
  assert.deepEqual(pieces("def a", ""), [["", "def a"]]);
  const long = "def a\n".repeat(20_000);
  assert.deepEqual(pieces(long, "python"), [["", long]]);
});

const LANGUAGES = ["js", "python", "sql", "css", "json", "html", "diff"];

test("the pieces add up to the code, whatever it is", () => {
  const alphabet = ["'", '"', "`", "\\", "/*", "*/", "//", "#", "--", "<!--", "-->", "<a", ">", "=", "\n", " ", "a", "1", "é", "😀", '"""'];
  let seed = 7;
  const next = () => (seed = (seed * 48271) % 2147483647);
  for (let round = 0; round < 2000; round += 1) {
    const code = Array.from({ length: 30 }, () => alphabet[next() % alphabet.length]).join("");
    for (const language of LANGUAGES) {
      assert.equal(pieces(code, language).map(([, text]) => text).join(""), code);
    }
  }
});

test("no text makes it slow", () => {
  // Steps cannot be counted; at this size anything quadratic takes minutes, the limit of the run.
  for (const bit of ["\\'", "'", '"', "`", "/*", "<!--", '"""', "#", "--", "<a", "a1", "a=", "\\`"]) {
    const code = bit.repeat(Math.floor(60_000 / bit.length));
    for (const language of LANGUAGES) assert.equal(pieces(code, language).length > 0, true);
  }
});
