// Colours for code: comments, strings, numbers, keywords, names that are called. One pass of one
// regular expression that never looks back further than a character, so that any text is linear.

const LONGEST = 60_000;

const WORDS = {
  slash: `abstract as async await bool boolean break byte case catch char class const constexpr
    continue def default defer delete do double dyn else enum export extends extern false final
    finally float fn for foreach from fun func function go goto if impl implements import in
    instanceof int interface internal is let lateinit long loop match mod move mut namespace new nil
    null nullptr object of operator override package private protected pub public readonly ref
    return self short signed sizeof static str string struct super switch template this throw throws
    trait true try type typedef typeof undefined union unsafe unsigned use using val var virtual
    void volatile when where while with yield`,
  hash: `False None True alias and as assert async await begin break case class continue def del do
    done echo elif else elsif end ensure esac except exec exit export false fi finally for from
    function global if import in is lambda local match module nil nonlocal not null or pass raise
    require rescue return self then true try unless until while with yield`,
  dash: `add all alter and as asc begin between by cascade case check column commit constraint create
    cross default delete desc distinct do drop else elseif end exists false for foreign from function
    full group having if in index inner insert integer into is join key left let like limit local
    module not null nil offset on or order outer primary references repeat replace return
    right rollback select set table text then true union unique until update using values varchar
    view when where while with`,
  style: "and from not only to",
  data: "true false null yes no on off",
};
const COMMENT = {
  slash: String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`,
  hash: String.raw`(?<![\w$'"\\])#[^\n]*`,
  dash: String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`,
  style: String.raw`\/\*[\s\S]*?(?:\*\/|$)`,
  data: String.raw`(?<![\w'"])#[^\n]*|\/\/[^\n]*`,
  markup: String.raw`<!--[\s\S]*?(?:-->|$)`,
};
const FAMILIES = {
  slash: `c c++ cc cpp cs csharp cxx dart go golang groovy h hpp java javascript js jsx kotlin kt mjs
    objc php proto rs rust scala sol solidity swift ts tsx typescript zig`,
  hash: `bash cmake console crystal docker dockerfile elixir ex julia jl make makefile nginx perl pl
    powershell ps1 py py3 python python3 r rb ruby sh shell starlark zsh`,
  dash: "haskell hs lua mysql postgres postgresql plsql psql sql sqlite",
  style: "css less sass scss",
  data: "conf env ini json json5 jsonc jsonl toml yaml yml",
  markup: "html htm svg svelte vue xhtml xml",
  diff: "diff patch",
};
const STRING = String.raw`("""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|(?<!\w\w)'(?:\\.|[^'\\\n])*'?|` + "`(?:\\\\.|[^`\\\\])*`?)";
const NUMBER = String.raw`((?<!\w)\d[\w.]*)`;
const WORD = String.raw`([\p{L}_$@][\p{L}\p{N}_$]*)`;
// A name of an element and its end; then what stands before an equals sign.
const MARKUP = String.raw`(<\/?[A-Za-z][\w:.-]*|\/?>)|(?<![\w:@.-])([\w:@.-]+)(?==)`;

const families = new Map();
for (const [family, names] of Object.entries(FAMILIES)) {
  for (const name of names.split(/\s+/)) families.set(name, family);
}
const made = new Map();

/** The pieces of code as [kind, text], which add up to it; kind "" where nothing is known. */
export function pieces(code, language) {
  const family = families.get(language.toLowerCase());
  if (family === undefined || code.length > LONGEST) return [["", code]];
  if (family === "diff") return code.split(/(?<=\n)/).map((line) => [lineKind(line), line]);
  const { pattern, words } = grammar(family);
  const found = [];
  let end = 0;
  for (const match of code.matchAll(pattern)) {
    const kind = kindOf(match, code, words, family);
    if (kind === "") continue;
    if (match.index > end) found.push(["", code.slice(end, match.index)]);
    found.push([kind, match[0]]);
    end = match.index + match[0].length;
  }
  if (end < code.length) found.push(["", code.slice(end)]);
  return found;
}

function grammar(family) {
  if (!made.has(family)) {
    const rest = family === "markup" ? [STRING, MARKUP] : [STRING, NUMBER, WORD];
    const pattern = new RegExp([`(${COMMENT[family]})`, ...rest].join("|"), "gu");
    made.set(family, { pattern, words: new Set((WORDS[family] ?? "").split(/\s+/)) });
  }
  return made.get(family);
}

function kindOf(match, code, words, family) {
  const [text, comment, string, third, word] = match;
  if (comment !== undefined) return "comment";
  if (string !== undefined) return family === "data" && isKey(text, code, match.index) ? "name" : "string";
  if (family === "markup") return third === undefined ? "name" : "keyword";
  if (third !== undefined) return "number";
  return wordKind(word, code, match.index, words, family);
}

function wordKind(word, code, at, words, family) {
  if (words.has(family === "dash" ? word.toLowerCase() : word)) return "keyword";
  if (family === "data") return isKey(word, code, at) ? "name" : "";
  return code[at + word.length] === "(" || word[0] === "@" ? "name" : "";
}

// In JSON, YAML, TOML and the like: what a colon or an equals sign follows.
function isKey(text, code, at) {
  const after = code.slice(at + text.length, at + text.length + 3);
  return /^ ?(?::|=)/.test(after);
}

function lineKind(line) {
  if (line.startsWith("@@")) return "comment";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "";
}
