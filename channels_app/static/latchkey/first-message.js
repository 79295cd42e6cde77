// A first conversation on a small page, with the web chat's own connection and turns.

import { Connection, socketUrl } from "./connection.js";
import { isMessage, Run, textOf } from "./conversation.js";
import { isPhone, isSending } from "./dom.js";
import { frameOf, Outbox, randomId } from "./outbox.js";
import { gettext } from "./texts.js";
import { Turn } from "./turn.js";
import { signIn } from "./api.js";

export class Trial {
  #runs = new Map();
  #turns = [];
  #session = null;

  /** announce(text): for screen readers. */
  constructor(root, { announce }) {
    this.root = root;
    this.announce = announce;
    this.list = root.querySelector("#try-log");
    this.form = root.querySelector("[data-try-form]");
    this.text = root.querySelector("textarea");
    this.send = root.querySelector("[data-try-form] button");
    // Not the tab's storage: the chat would send these messages again.
    this.outbox = new Outbox({ storage: { getItem: () => null, setItem: () => {} }, newId: randomId, person: "" });
    this.connection = new Connection({
      open: () => new WebSocket(socketUrl(document.body.dataset.person)),
      on: {
        open: () => this.#connected(),
        frame: (frame) => this.#frame(frame),
        state: () => {},
        signedOut: signIn,
        otherPerson: () => location.reload(),
        refused: () => this.#problem(gettext("The gateway refuses the connection. Reload the page.")),
      },
    });
    this.turnEvents = {
      retry: (said) => this.say(said.text),
      edit: (said) => this.#edit(said),
      rate: null,
      showProgress: () => true,
    };
  }

  start() {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.say(this.text.value);
    });
    this.text.addEventListener("keydown", (event) => {
      if (!isSending(event)) return;
      event.preventDefault();
      this.say(this.text.value);
    });
    this.connection.start();
    this.#busy();
    if (!isPhone()) this.text.focus();
  }

  say(text) {
    if (text.trim() === "" || this.#isBusy()) return;
    this.#problem("");
    this.text.value = "";
    const entry = this.outbox.add({ text, sessionId: this.#session, chat: "first" });
    const said = { text, at: null, media: [] };
    const turn = new Turn({ said, clientId: entry.client_id, on: this.turnEvents });
    this.#turns.push(turn);
    this.list.append(turn.node);
    turn.pending(this.connection.isOpen ? "" : gettext("Waiting for the connection…"));
    this.#toEnd();
    this.#flush();
    this.#busy();
  }

  #edit(said) {
    this.text.value = said.text;
    this.text.focus();
  }

  #flush() {
    for (const entry of this.outbox.sendable()) this.connection.send(frameOf(entry));
  }

  #connected() {
    this.#problem(""); // that of a refused connection
    this.#flush();
    for (const run of this.#runs.values()) if (run.final === null) this.#resume(run);
  }

  #resume(run) {
    this.connection.send({ type: "resume", run_id: run.id, after: run.seq });
  }

  #frame(frame) {
    if (isMessage(frame)) this.#message(frame);
    else if (frame.type === "accepted") this.#accepted(frame);
    else if (frame.type === "final") this.#final(frame);
    else if (frame.type === "progress") this.#progress(frame);
    else if (frame.type === "error") this.#refused(frame);
  }

  #message(frame) {
    const run = this.#runs.get(frame.run_id);
    if (run === undefined) return;
    const { outcome, key, event } = run.take(frame);
    if (outcome === "gap") this.#resume(run);
    if (outcome !== "applied") return;
    const turn = this.#turnOf(run);
    if (key) turn.update(key);
    else turn.wait();
    if (event === "tool_end") turn.showTools();
    this.#toEnd();
  }

  #accepted(frame) {
    const entry = this.outbox.accepted(frame.client_id, frame.session_id);
    const turn = entry && this.#turns.find((each) => each.clientId === frame.client_id);
    if (!turn) return;
    this.#session = frame.session_id;
    const run = new Run(frame.run_id, frame.session_id);
    this.#runs.set(run.id, run);
    turn.clientId = null;
    turn.bind(run);
    const chat = document.querySelector("[data-try-chat]");
    chat.href = `/c/${frame.session_id}`;
    chat.hidden = false;
  }

  #progress(frame) {
    const run = this.#runs.get(frame.run_id);
    run?.note(frame);
    if (run) this.#turnOf(run).wait();
  }

  #final(frame) {
    const run = this.#runs.get(frame.run_id);
    if (run === undefined) return;
    if (frame.seq > run.seq) {
      this.#resume(run);
      return;
    }
    if (!run.finish(frame)) return;
    const turn = this.#turnOf(run);
    turn.finish();
    this.announce(turn.spoken());
    this.#toEnd();
    this.#busy();
    const isAnswered = !textOf(frame.error) && !frame.interrupted;
    this.root.querySelector("[data-try-failed]").hidden = isAnswered;
    if (isAnswered) this.#answered();
  }

  #refused(frame) {
    const message = textOf(frame.error) || gettext("The gateway refused the message.");
    const entry = frame.client_id ? this.outbox.remove(frame.client_id) : undefined;
    const turn = entry && this.#turns.find((each) => each.clientId === entry.client_id);
    if (turn) {
      turn.clientId = null;
      turn.refuse(message);
    } else this.#problem(message);
    this.#busy();
  }

  /** It works: the way on is there. */
  #answered() {
    document.querySelector("[data-next]").hidden = false;
    document.querySelector("[data-skip]").hidden = true;
  }

  #problem(words) {
    const place = this.root.querySelector("[data-try-error]");
    place.textContent = words;
    place.hidden = words === "";
  }

  #isBusy() {
    const isOpen = [...this.#runs.values()].some((run) => run.final === null);
    return isOpen || this.#turns.some((turn) => turn.clientId !== null);
  }

  #busy() {
    this.send.disabled = this.#isBusy();
  }

  #turnOf(run) {
    return this.#turns.find((turn) => turn.run === run);
  }

  #toEnd() {
    this.list.scrollTop = this.list.scrollHeight;
  }
}
