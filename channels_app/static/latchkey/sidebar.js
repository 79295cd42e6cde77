// The list of chats: search, open, rename, delete, and their state (running, unread).

import { call } from "./api.js";
import { el, icon, iconButton, isComposing, isSending, onPress } from "./dom.js";
import { LATER } from "./offline.js";
import { browserStorage, tabStorage } from "./storage.js";
import { filled, gettext } from "./texts.js";
import { ageGroup } from "./time.js";

const PAUSE = 250;
const SHORTEST = 2;
const NONE = gettext("No chats yet.");
const UNREAD = gettext("The list of chats could not be loaded.");

export class Sidebar {
  #sessions = [];
  #current = null;
  #key = `latchkey.unread.${document.body.dataset.person}`;
  #unread = new Set(JSON.parse(tabStorage.getItem(this.#key) ?? "[]"));
  #hits = null;
  #problem = ""; // why a search failed
  #meaning = ""; // of a list without chats, until it was read
  #again = null;
  #hasOlder = false;
  #removed = new Set();
  #isOutdated = false;
  #reading = null;
  #asking = null;
  #list = document.querySelector("#sessions");
  #empty = document.querySelector("#sessions-empty");
  #search = document.querySelector("#session-search");
  #dialog = document.querySelector("#session-dialog");
  #late = null;

  /** on: {open(id), removed(id), renamed(id, title), failed(message)}. */
  constructor(on) {
    this.on = on;
    this.#search.addEventListener("input", () => this.#searched());
    this.#search.addEventListener("keydown", (event) => this.#searchKey(event));
    for (const node of [this.#search, this.#list]) node.addEventListener("keydown", (event) => this.#arrows(event));
    this.#list.addEventListener("focusin", ({ target }) => this.#stopAt(target.parentElement));
    if (this.#search.value) this.#searched(); // typed before this script ran
  }

  /** Read the list again; settles when it shows what was true at the call. */
  refresh() {
    this.#isOutdated = true;
    clearTimeout(this.#again);
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  // One request at a time: an older answer cannot come last, nor undo a new title.
  async #read() {
    try {
      while (this.#isOutdated) {
        this.#isOutdated = false;
        const found = await call("/chat/sessions");
        this.#hasOlder = found.has_older;
        if (!this.#isOutdated) this.#sessions = this.#remaining(found.sessions);
      }
      this.#meaning = NONE;
    } catch (error) {
      if (this.#meaning !== UNREAD) this.on.failed(`${UNREAD} ${error.message}`);
      this.#meaning = UNREAD;
      this.#again = setTimeout(() => this.refresh(), LATER);
    }
    this.#draw();
  }

  /** Type to search from here on; `show` makes the list visible. */
  search(show) {
    show();
    this.#search.focus();
    this.#search.select();
  }

  select(id) {
    this.#current = id;
    if (this.#unread.delete(id)) this.#keepUnread();
    this.#draw();
  }

  #keepUnread() {
    tabStorage.setItem(this.#key, JSON.stringify([...this.#unread]));
  }

  title(id) {
    return this.#sessions.find((session) => session.id === id)?.title ?? "";
  }

  /** A chat is running, or an answer arrived. */
  activity(id, { busy }) {
    const session = this.#sessions.find((each) => each.id === id);
    const isNews = !busy && id !== this.#current && !this.#unread.has(id);
    if (isNews) {
      this.#unread.add(id);
      this.#keepUnread();
    }
    if (session === undefined) {
      // Each piece of an answer comes here; a list on its way has its chat, but not its end.
      if (!busy || this.#reading === null) this.refresh();
      return;
    }
    if (!busy || !session.busy) this.#isOutdated = true; // a list on its way may not have it
    if (session.busy === busy && !isNews) return;
    session.busy = busy;
    session.at = new Date().toISOString();
    this.#sessions = [session, ...this.#sessions.filter((each) => each !== session)];
    this.#draw();
  }

  get #wanted() {
    return this.#search.value.trim().toLowerCase();
  }

  // Titles are filtered at once, the content of chats when typing pauses.
  #searched() {
    clearTimeout(this.#asking);
    this.#hits = null;
    this.#problem = "";
    const wanted = this.#wanted;
    this.#asking = wanted.length < SHORTEST ? null : setTimeout(() => this.#ask(wanted), PAUSE);
    this.#draw();
  }

  async #ask(wanted) {
    const answer = await call(`/chat/sessions?q=${encodeURIComponent(wanted)}`).catch((error) => ({ problem: error.message }));
    if (wanted !== this.#wanted) return;
    this.#asking = null;
    this.#problem = answer.problem ?? "";
    this.#hits = this.#remaining(answer.sessions ?? []);
    this.#draw();
  }

  #searchKey(event) {
    if (isComposing(event) || !this.#search.value) return;
    if (isSending(event)) this.#list.querySelector("a")?.click();
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    this.#search.value = "";
    this.#searched();
  }

  #found(wanted) {
    const hits = new Map((this.#hits ?? []).map((hit) => [hit.id, hit]));
    const known = this.#sessions
      .filter((each) => hits.has(each.id) || each.title.toLowerCase().includes(wanted))
      .map((each) => ({ ...each, excerpt: hits.get(each.id)?.excerpt }));
    for (const { id } of known) hits.delete(id);
    return [...known, ...hits.values()].sort((a, b) => new Date(b.at) - new Date(a.at));
  }

  #draw() {
    clearTimeout(this.#late);
    // A press on a row that is drawn anew would be lost, and the focus that a closed dialog gives back.
    if (this.#dialog.open || this.#list.matches(":active")) {
      this.#late = setTimeout(() => this.#draw(), PAUSE);
      return;
    }
    const wanted = this.#wanted;
    const found = wanted ? this.#found(wanted) : this.#sessions;
    const before = [...this.#list.querySelectorAll(".session")];
    const focused = before.findIndex((row) => row.contains(document.activeElement));
    const rows = [];
    let group = "";
    for (const session of found) {
      const age = ageGroup(session.at);
      if (age !== group) rows.push(el("li.group", {}, age));
      group = age;
      rows.push(this.#row(session));
    }
    if (this.#hasOlder && !wanted) rows.push(el("li.group", {}, gettext("Older chats are found by the search.")));
    this.#list.replaceChildren(...rows);
    this.#stopAt((this.#list.querySelector("[aria-current]") ?? this.#list.querySelector("a"))?.parentElement);
    // Titles are found at once; what is said in the chats is still looked for, or could not be.
    this.#empty.hidden = found.length > 0 && !(wanted && (this.#asking || this.#problem));
    const words = this.#nothing(wanted);
    if (words !== this.#empty.textContent) this.#empty.textContent = words; // readers of screens say it each time
    if (focused >= 0) this.#focusAgain(before[focused].dataset.id, focused);
  }

  /** The Tab key stops at one chat; arrows lead to the others. */
  #stopAt(row) {
    for (const each of this.#list.querySelectorAll("a, button")) each.tabIndex = row?.contains(each) ? 0 : -1;
  }

  /** Focus a chat that is drawn anew; the one in its place where it is gone. */
  #focusAgain(id, place) {
    const rows = [...this.#list.querySelectorAll(".session")];
    const row = rows.find((each) => each.dataset.id === id) ?? rows[place] ?? rows.at(-1);
    (row?.querySelector("a") ?? this.#search).focus();
  }

  #nothing(wanted) {
    if (!wanted) return this.#meaning;
    return this.#asking ? gettext("Searching…") : this.#problem || gettext("No results.");
  }

  #row(session) {
    const open = (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      this.on.open(session.id);
    };
    const [kind, words] = this.#state(session);
    const said = el("span.visually-hidden", {}, ` (${words})`);
    const dot = kind ? el(`span.dot.dot-${kind}`, {}, said) : null;
    const excerpt = session.excerpt ? el("span.session-excerpt", { dir: "auto" }, session.excerpt) : null;
    const here = session.id === this.#current ? "page" : null;
    const title = session.title || gettext("New chat");
    const link = el(
      "a",
      { href: `/c/${session.id}`, onclick: open, "aria-current": here, title },
      el("span.session-words", {}, el("span.session-title", { dir: "auto" }, title), excerpt),
      dot,
    );
    const menu = iconButton("more", filled(gettext("Rename, download or delete: {title}"), { title }), () => this.#menu(session), {
      "aria-haspopup": "dialog",
    });
    menu.classList.add("session-more");
    return el("li.session", { "data-id": session.id }, link, menu);
  }

  #state(session) {
    if (session.busy) return ["busy", gettext("working")];
    return this.#unread.has(session.id) ? ["unread", gettext("new answer")] : ["", ""];
  }

  #menu(session) {
    const dialog = this.#dialog;
    const form = dialog.querySelector("form");
    const input = form.elements.title;
    const confirm = dialog.querySelector("#delete-confirm");
    const really = confirm.querySelector("button");
    input.value = session.title;
    confirm.hidden = true;
    dialog.querySelector("#export-chat").href = `/chat/sessions/${session.id}/export`;
    dialog.querySelector("#delete-chat").onclick = () => {
      confirm.hidden = false;
      really.focus();
    };
    really.onclick = onPress(() => {
      dialog.close();
      this.#remove(session);
    });
    const submit = async (event) => {
      event.preventDefault();
      const isSaved = await this.#rename(session, input.value.trim());
      if (isSaved && form.onsubmit === submit) dialog.close(); // else it is of another chat by now
    };
    form.onsubmit = submit;
    dialog.showModal();
    input.select();
  }

  // An answer of the gateway may have been on its way while a chat was deleted.
  #remaining(sessions) {
    return sessions.filter((each) => !this.#removed.has(each.id));
  }

  /** Give a chat a title; whether it has it now. */
  async #rename(session, title) {
    if (!title || title === session.title) return true;
    if (!(await this.#post(session, { action: "rename", title }))) return false;
    this.#isOutdated = true; // a list on its way may have the old title
    for (const each of [...this.#sessions, ...(this.#hits ?? [])]) if (each.id === session.id) each.title = title;
    this.#draw();
    this.on.renamed(session.id, title);
    return true;
  }

  async #remove(session) {
    if (!(await this.#post(session, { action: "delete" }))) return;
    this.#removed.add(session.id);
    this.#sessions = this.#remaining(this.#sessions);
    this.#hits = this.#remaining(this.#hits ?? []);
    this.#draw();
    this.on.removed(session.id);
  }

  #post(session, body) {
    return call(`/chat/sessions/${session.id}`, body).catch((error) => this.on.failed(error.message));
  }

  #arrows(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || isComposing(event)) return;
    const links = [...this.#list.querySelectorAll("a")];
    const next = links[links.indexOf(document.activeElement.closest("li")?.querySelector("a")) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}

/** Show and hide the sidebar: a drawer on a phone, else a column that folds away. */
export function sidebarToggle() {
  const phone = matchMedia("(max-width: 48rem)");
  const root = document.documentElement;
  const sidebar = document.querySelector("#sidebar");
  const scrim = document.querySelector("#scrim");
  const main = document.querySelector(".main");
  const buttons = document.querySelectorAll("[data-toggle-sidebar]");
  const isWanted = () => !phone.matches && browserStorage.getItem("latchkey.sidebar") !== "closed";
  let open = isWanted();
  const show = (wanted, { focus = false } = {}) => {
    open = wanted;
    root.classList.toggle("sidebar-open", open);
    sidebar.inert = !open;
    scrim.hidden = !(open && phone.matches);
    main.inert = !scrim.hidden; // what lies under the drawer takes no focus
    for (const button of buttons) button.setAttribute("aria-expanded", String(open));
    if (!phone.matches) browserStorage.setItem("latchkey.sidebar", open ? "open" : "closed");
    if (!focus) return;
    if (open) sidebar.querySelector("#new-chat").focus();
    else document.querySelector("#open-sidebar").focus();
  };
  for (const button of buttons) button.addEventListener("click", () => show(!open, { focus: true }));
  scrim.addEventListener("click", () => show(false, { focus: true }));
  sidebar.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && phone.matches && open) {
      event.stopPropagation();
      show(false, { focus: true });
    }
  });
  phone.addEventListener("change", () => show(isWanted()));
  show(open);
  return {
    show,
    closeOnPhone: () => {
      if (phone.matches) show(false);
    },
  };
}
