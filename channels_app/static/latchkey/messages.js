// One view for each message type. A view has a `node` and takes the changed message by `show`;
// types that are not on the page (event, action, loading, user_input) have none.

import { OFF_PAGE, textOf } from "./conversation.js";
import { el, icon, iconButton, ownUrl, webUrl } from "./dom.js";
import { LiveText } from "./live.js";
import { around, filled, gettext, LOCALE, ngettext } from "./texts.js";

const SAFE_IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$/;
const DATA_MEDIA = /^data:((?:audio|video)\/[\w.+-]+)(?:;[^,]*)?;base64,([A-Za-z0-9+/=\s]+)$/;

/** A view of a message; null when its type is not shown. `context`: {rate, runId, toolState, thumbs}. */
export function viewOf(part, context) {
  if (OFF_PAGE.has(part.type)) return null;
  const make = { text: TextView, thinking: ThinkingView }[part.type];
  const view = make ? new make() : new WholeView(BUILD[part.type] ?? customBlock, context);
  view.type = part.type;
  view.show(part);
  return view;
}

class TextView {
  #live = new LiveText();
  node = this.#live.node;

  show(part) {
    if (typeof part.html === "string") this.#live.showHtml(part.html);
    else this.#live.show(textOf(part.props.content));
  }

  settle(html) {
    this.#live.showHtml(html);
  }

  /** No rendering came (the run was cut): the preview stays, without its caret. */
  rest() {
    this.node.classList.remove("streaming");
  }
}

class ThinkingView {
  #body = el("div.thinking-text");
  #label = el("span.thinking-label.shimmer", {}, gettext("Thinking…"));
  #since = Date.now();
  node = el(
    "details.thinking",
    {},
    el("summary", {}, icon("spark"), this.#label, icon("chevron")),
    this.#body,
  );

  show(part) {
    this.#body.textContent = textOf(part.props.content).trim();
  }

  rest() {
    if (!this.#label.classList.contains("shimmer")) return;
    const seconds = Math.round((Date.now() - this.#since) / 1000);
    this.#label.classList.remove("shimmer");
    this.#label.textContent = seconds >= 1 ? filled(gettext("Thought for {seconds} s"), { seconds }) : gettext("Thoughts");
  }
}

/** A message that is drawn anew when it changes. */
class WholeView {
  constructor(build, context) {
    this.build = build;
    this.context = context;
    this.node = el("div.part");
  }

  show(part) {
    const before = this.node.querySelector("details");
    const isFocused = before?.contains(document.activeElement);
    const drawn = el("div.part", {}, this.build(part.props, this.context, part));
    const details = drawn.querySelector("details");
    if (details && before?.open) details.open = true;
    if (drawn.isEqualNode(this.node)) return; // what one scrolls or selects in it stays
    this.node.replaceChildren(...drawn.childNodes);
    if (isFocused) details?.querySelector("summary").focus({ preventScroll: true });
  }
}

const BUILD = {
  tool_call: toolCall,
  retrieval,
  error: errorBlock,
  image,
  audio,
  video,
};

// Our own tools, as people call them; any other has its own name.
const TOOLS = {
  current_time: gettext("the clock"),
  document_read: gettext("a document"),
  route_to_plugin: gettext("a long task"),
  run_skill: gettext("a skill"),
  save_result_page: gettext("a result page"),
  schedule: gettext("reminders"),
  web_fetch: gettext("a web page"),
  web_search: gettext("web search"),
};

function toolName(name) {
  if (Object.hasOwn(TOOLS, name)) return el("span", { title: name }, TOOLS[name]);
  return name ? el("code", {}, name) : el("span", {}, gettext("a tool"));
}

function toolCall(props, { toolState }) {
  const words = { running: gettext("Using {tool}"), failed: gettext("Failed: {tool}"), waits: gettext("Needs a sign-in: {tool}") };
  const said = words[toolState?.(props.id)] ?? gettext("Used {tool}");
  const label = el("span", {}, ...around(said, "tool", toolName(textOf(props.name))));
  const summary = el("summary", {}, icon("tool"), label, icon("chevron"));
  return el("details.tool-call", {}, summary, el("pre", { tabindex: 0 }, pretty(props.arguments)));
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return textOf(text) || gettext("(no arguments)");
  }
}

/** The error, with details for the owner folded away. */
export function errorBlock({ message, code, details }) {
  const head = el("p", {}, textOf(message) || gettext("Something went wrong."));
  const more = [textOf(code), textOf(details)].filter(Boolean).join("\n");
  const fold = more ? el("details", {}, el("summary", {}, gettext("Details"), icon("chevron")), el("pre", { tabindex: 0 }, more)) : null;
  return el("div.error-block", {}, icon("warning"), el("div", {}, head, fold));
}

function retrieval(props, { rate, runId, thumbs }, part) {
  const messageId = textOf(part.message_id);
  const context = {
    rate: rate && ((rating) => rate({ runId, messageId, ...rating })),
    given: (id) => thumbs?.[messageId]?.[id] ?? "",
  };
  const sources = Array.isArray(props.sources) ? props.sources : [];
  const count = sources.length;
  const found = ngettext("{count} source for “{query}”", "{count} sources for “{query}”", count);
  const label = el("span", {}, filled(found, { count, query: textOf(props.query) }));
  const facts = [
    textOf(props.provider),
    Number.isFinite(props.query_time_ms) ? `${props.query_time_ms} ms` : "",
    Number.isFinite(props.total_results) ? filled(gettext("{count} found"), { count: props.total_results.toLocaleString(LOCALE) }) : "",
  ].filter(Boolean);
  const summary = el("summary", {}, icon("book"), label, icon("chevron"));
  const cards = el("ol.sources", {}, ...sources.map((source, at) => sourceCard(source, at, context)));
  const foot = facts.length ? el("p.facts", {}, facts.join(" · ")) : null;
  return el("details.retrieval", {}, summary, cards, foot);
}

function sourceCard(source, at, context) {
  const url = webUrl(textOf(source.url));
  const title = textOf(source.title) || textOf(source.url) || textOf(source.document_id) || filled(gettext("Source {number}"), { number: at + 1 });
  const linked = textOf(source.url) && url;
  const head = linked ? el("a", outward(url), title) : el("span", {}, title);
  const kind = linked ? url.host : { kb: gettext("Knowledge base"), file: gettext("File"), api: "API", mcp: "MCP" }[source.type];
  const score = Number.isFinite(source.score) ? `${Math.round(source.score * 100)} %` : "";
  const facts = [kind ?? textOf(source.type), score].filter(Boolean).join(" · ");
  const text = el("p.source-text", { tabindex: 0 }, textOf(source.content));
  const foot = el("div.source-foot", {}, el("span.facts", {}, facts), thumbs(source, context, title));
  return el("li.source", {}, el("p.source-title", {}, el("span.number", {}, String(at + 1)), head), text, foot);
}

function thumbs(source, { rate, given }, title) {
  if (!rate || typeof source.id !== "string") return null;
  const buttons = ["up", "down"].map((verdict) => {
    const label = filled(verdict === "up" ? gettext("Useful: {title}") : gettext("Not useful: {title}"), { title });
    const pressed = { "aria-pressed": String(given(source.id) === verdict) };
    return iconButton(`${verdict}-thumb`, label, () => press(verdict), pressed);
  });
  const press = async (verdict) => {
    const chosen = buttons[verdict === "up" ? 0 : 1];
    const now = chosen.getAttribute("aria-pressed") === "true" ? "" : verdict;
    if (!(await rate({ sourceId: source.id, verdict: now }))) return;
    buttons.forEach((button, at) => {
      button.setAttribute("aria-pressed", String(now === ["up", "down"][at]));
    });
  };
  return el("span.thumbs", {}, ...buttons);
}

/** The allowed addresses of media on this page: own files and data URLs. */
export function imageSource(address) {
  if (SAFE_IMAGE.test(address)) return address;
  return address.startsWith("data:") ? null : (ownUrl(address)?.href ?? null);
}

function image(props) {
  const address = textOf(props.url);
  const source = imageSource(address);
  const alt = textOf(props.alt);
  if (source === null) return elsewhere(gettext("Open the image"), address, alt);
  const size = { width: pixels(props.width), height: pixels(props.height) };
  const picture = el("img", { src: source, alt, loading: "lazy", ...size });
  const link = el("a", { href: source, target: "_blank", rel: "noopener" }, picture);
  const caption = alt ? el("figcaption", {}, alt) : null;
  return el("figure.media", {}, source.startsWith("data:") ? picture : link, caption);
}

function audio(props) {
  const source = mediaSource(textOf(props.url));
  if (source === null) return elsewhere(gettext("Open the recording"), textOf(props.url), "");
  const player = el("audio", { src: source, controls: true, preload: "metadata", onerror: orLink(gettext("Open the recording")) });
  return el("figure.media", {}, player, transcript(props.transcript));
}

function video(props) {
  const source = mediaSource(textOf(props.url));
  if (source === null) return elsewhere(gettext("Open the video"), textOf(props.url), "");
  const poster = imageSource(textOf(props.thumbnail) || "data:");
  const size = { width: pixels(props.width), height: pixels(props.height) };
  const flags = { controls: true, playsinline: true, loop: props.loop === true, preload: "metadata", onerror: orLink(gettext("Open the video")) };
  const player = el("video", { src: source, poster, ...flags, ...size });
  return el("figure.media", {}, player, transcript(props.transcript));
}

/** A browser that cannot play a medium leaves its address. */
const orLink = (label) => ({ target }) => target.replaceWith(el("a", { href: target.src, target: "_blank", rel: "noopener" }, label));

function mediaSource(address) {
  const data = DATA_MEDIA.exec(address);
  if (data === null) return address && !address.startsWith("data:") ? (ownUrl(address)?.href ?? null) : null;
  try {
    const bytes = Uint8Array.from(atob(data[2]), (character) => character.charCodeAt(0));
    return URL.createObjectURL(new Blob([bytes], { type: data[1] }));
  } catch {
    return null;
  }
}

function transcript(text) {
  if (typeof text !== "string" || text === "") return null;
  return el("details", {}, el("summary", {}, gettext("Transcript"), icon("chevron")), el("p.plain", {}, text));
}

// Loading it would reveal to its host when the answer was read: it needs a click.
function elsewhere(label, address, alt) {
  const url = /^https?:/.test(address) ? webUrl(address) : null;
  if (url === null) return el("p.facts", {}, alt || gettext("This medium cannot be shown."));
  const words = el("span", {}, label, alt ? `: ${alt}` : "");
  return el("a.elsewhere", outward(url), icon("link"), words, el("span.real-host", {}, `(${url.host})`));
}

function outward(url) {
  return { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" };
}

function pixels(value) {
  return Number.isInteger(value) && value > 0 && value < 10_000 ? value : null;
}

function customBlock(props, _context, part) {
  const summary = el("summary", {}, icon("block"), el("code", {}, part.type), icon("chevron"));
  return el("details.custom", {}, summary, el("pre", { tabindex: 0 }, JSON.stringify(props, null, 2)));
}
