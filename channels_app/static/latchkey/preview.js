// Markdown while it streams, as blocks and inline pieces. Pure, and only a preview of the server's
// rendering: no links, no images, so nothing half-written can be clicked or loaded.

// None is slow: what follows a repetition cannot be part of it.
const FENCE = /^( {0,3})(`{3,}(?!`)|~{3,}(?!~))(?![^`]*`)\s*(\S*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/s;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:\s+(.*)|)$/s;
const TASK = /^\[([ xX])\]\s+(?=\S)/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*(?:\|\s*)?$/;
const MAX_DEPTH = 6;
// A longer piece is shown as it is: the pattern may look at it many times.
const MAX_INLINE = 6000;
// A marker between two of these is text: 10*20*30, MY__VAR (scripts that put a space before each word).
const SPACED = "\\p{Script=Latin}\\p{Script=Greek}\\p{Script=Cyrillic}";
const LETTER = `[\\p{N}${SPACED}]`;
// Names as __init__.py. The whole rule is in core/markdown/words.py; this is what is common.
const NAMES = "all|call|class|dict|doc|enter|eq|exit|file|init|len|main|name|new|repr|slots|str|version";
const DUNDER = `(?<![\\w.])__(?:(?:${NAMES})__(?![\\w*])|[a-zA-Z]\\w*?__(?=\\.\\w|[([]))`;
// Tags of HTML, as in core/markdown/tag_rule.py.
const SHOWN = { b: "strong", strong: "strong", summary: "strong", i: "em", em: "em", u: "u", ins: "u", s: "s", strike: "s", del: "s", code: "code", kbd: "kbd", mark: "mark", small: "small", sub: "sub", sup: "sup" };
const FOLDED = "</?details(?: open)?>(?=\\s*(?:<summary>|\\n|$))\\n?";
const ALERT = /^\[!(note|tip|important|warning|caution)\]/i;
const OPENS = `(?<!${LETTER}\\**(?=\\*+${LETTER}))`;
const CLOSES = `(?<!${LETTER}\\*+(?=${LETTER}))`;
const INLINE = new RegExp(
  [
    "\\[\\^(?<note>\\d{1,3})\\]",
    `(?<literal>${DUNDER}|(?<=\\.)__[a-zA-Z]\\w*?__(?!\\w)|(?<=[${SPACED}])\`(?=[${SPACED}]))`,
    "(?<ticks>(?<!`)`+(?!`))(?<code>(?:[^`]|(?!\\k<ticks>(?!`))`+(?!`))+?)\\k<ticks>(?!`)",
    `${OPENS}\\*\\*(?=\\S)(?<strong>[^]*?[^\\s*]\\**?)\\*\\*${CLOSES}`,
    "(?<!\\w)__(?=\\S)(?<strong2>[^]*?\\S)__(?!\\w)",
    `${OPENS}\\*(?=[^\\s*])(?<em>[^*]*?[^\\s*])\\*${CLOSES}`,
    "(?<!\\w)_(?=[^\\s_])(?<em2>[^_]*?[^\\s_])_(?!\\w)",
    "~~(?=\\S)(?<del>[^]*?\\S)~~",
    "!?\\[(?<label>[^\\]\\n]*)\\]\\((?=[^)\\s/:#@]*[/:#@])[^)\\s]*\\)",
    // One that begins with a space is what a sentence is about, but for a summary.
    `<(?<tag>${Object.keys(SHOWN).join("|")})>(?:(?<=<summary>)|(?! ))(?<tagged>[^]*?)</\\k<tag>>`,
    `(?<br><br\\s*/?>\\n?)|(?<folded>${FOLDED})`,
    "\\\\(?<escaped>[!-/:-@[-`{-~])",
  ].join("|"),
  "gu",
);

/** Up to where `text` is settled: what stands before that place no longer changes its blocks. */
export function settledUpTo(text, from = 0) {
  let settled = from;
  let fence = "";
  let position = from;
  while (position < text.length) {
    const end = text.indexOf("\n", position);
    if (end < 0) break;
    const line = text.slice(position, end);
    const mark = FENCE.exec(line);
    if (fence) {
      if (closes(line, fence)) fence = "";
    } else if (mark) {
      fence = mark[2];
    } else if (line.trim() === "" && startsAnew(text.slice(end + 1, end + 40))) {
      settled = end + 1;
    }
    position = end + 1;
  }
  return settled;
}

/** The blocks of `text`. */
export function parseBlocks(text, depth = 0) {
  const lines = text.split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = readBlock(lines, at, depth);
    if (block) blocks.push(block);
    at = next;
  }
  return blocks;
}

/** The inline pieces of `text`: {type, text} or {type, children}. */
export function parseInline(text, depth = 0) {
  if (text.length > MAX_INLINE || depth > MAX_DEPTH) return [{ type: "text", text }];
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) pieces.push({ type: "text", text: text.slice(end, match.index) });
    pieces.push(piece(match.groups, depth));
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push({ type: "text", text: text.slice(end) });
  return pieces;
}

function piece(found, depth) {
  const inside = (text) => parseInline(text, depth + 1);
  if (found.literal !== undefined) return { type: "text", text: found.literal };
  if (found.note !== undefined) return { type: "sup", children: inside(found.note) };
  if (found.code !== undefined) return { type: "code", text: trimmedCode(found.code) };
  if (found.escaped !== undefined) return { type: "text", text: found.escaped };
  if (found.label !== undefined) return { type: "link", children: inside(found.label) };
  if (found.tag !== undefined) return { type: SHOWN[found.tag], text: found.tagged, children: inside(found.tagged) };
  if (found.br !== undefined) return { type: "br", children: [] };
  if (found.folded !== undefined) return { type: "text", text: "" };
  if (found.del !== undefined) return { type: "del", children: inside(found.del) };
  const strong = found.strong ?? found.strong2;
  if (strong !== undefined) return { type: "strong", children: inside(strong) };
  return { type: "em", children: inside(found.em ?? found.em2) };
}

function trimmedCode(code) {
  return /^ .*[^ ].* $/s.test(code) ? code.slice(1, -1) : code;
}

function startsAnew(rest) {
  return rest !== "" && !/^\s/.test(rest) && !ITEM.test(rest.split("\n")[0]);
}

function closes(line, fence) {
  const bare = line.trim();
  return bare.length >= fence.length && bare === fence[0].repeat(bare.length);
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  if (line.trim() === "") return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return readCode(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ type: "heading", level: heading[1].length, text: heading[2].trimEnd().replace(/\s#+$/, "").trimEnd() }, at + 1];
  if (RULE.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return readQuote(lines, at, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return readList(lines, at, depth);
  if (line.includes("|") && at + 1 < lines.length && DIVIDER.test(lines[at + 1])) {
    return readTable(lines, at);
  }
  return readParagraph(lines, at);
}

function readCode(lines, at, [, indent, fence, language]) {
  const inside = [];
  let next = at + 1;
  while (next < lines.length && !closes(lines[next], fence)) {
    inside.push(lines[next].startsWith(indent) ? lines[next].slice(indent.length) : lines[next]);
    next += 1;
  }
  return [{ type: "code", language, text: inside.join("\n") }, next + 1];
}

function readQuote(lines, at, depth) {
  let next = at;
  const inside = [];
  while (next < lines.length && QUOTE.test(lines[next])) {
    inside.push(lines[next].replace(QUOTE, ""));
    next += 1;
  }
  inside[0] = inside[0].replace(ALERT, (_, [first, ...rest]) => `**${first.toUpperCase()}${rest.join("").toLowerCase()}:**`);
  return [{ type: "quote", blocks: parseBlocks(inside.join("\n"), depth + 1) }, next];
}

function readList(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const kind = first[2].at(-1);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const item = ITEM.exec(lines[next]);
    if (!item || item[2].at(-1) !== kind || RULE.test(lines[next])) break;
    const [text, after] = readItem(lines, next, item);
    items.push(parseItem(text, depth + 1));
    next = after;
  }
  const start = ordered ? Number.parseInt(first[2], 10) : 1;
  return [{ type: "list", ordered, start, items }, next];
}

/** The blocks of an item; the first paragraph of a task says whether that `isDone`. */
function parseItem(text, depth) {
  const blocks = parseBlocks(text, depth);
  const task = blocks[0]?.type === "paragraph" ? TASK.exec(blocks[0].text) : null;
  if (task === null) return blocks;
  const [first, ...rest] = blocks;
  return [{ ...first, text: first.text.slice(task[0].length), isDone: task[1] !== " " }, ...rest];
}

function readItem(lines, at, [, indent, marker, text]) {
  const width = indent.length + marker.length + 1;
  const inside = [text ?? ""];
  let next = at + 1;
  while (next < lines.length) {
    const line = lines[next];
    const deep = line.slice(0, width).trim() === "" && line.trim() !== "";
    const blank = line.trim() === "" && next + 1 < lines.length;
    const lazy = line.trim() !== "" && inside.at(-1) !== "" && !opensBlock(line);
    if (!deep && !blank && !lazy) break;
    if (blank && !/^ {2,}\S/.test(lines[next + 1]) && !ITEM.test(lines[next + 1])) break;
    inside.push(deep ? line.slice(width) : line.trim());
    next += 1;
  }
  return [inside.join("\n"), next];
}

function opensBlock(line) {
  return [FENCE, HEADING, RULE, ITEM, QUOTE].some((pattern) => pattern.test(line));
}

function readTable(lines, at) {
  const align = cells(lines[at + 1]).map(alignment);
  const rows = [];
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|")) {
    rows.push(cells(lines[next]));
    next += 1;
  }
  return [{ type: "table", head: cells(lines[at]), align, rows }, next];
}

function cells(line) {
  const bare = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return bare.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function alignment(cell) {
  if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "right";
  return "";
}

function readParagraph(lines, at) {
  let next = at + 1;
  while (next < lines.length && lines[next].trim() !== "" && !opensBlock(lines[next])) next += 1;
  const text = lines.slice(at, next).map((line) => line.trim());
  return [{ type: "paragraph", text: text.join("\n") }, next];
}
