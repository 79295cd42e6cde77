// The page: dispatches frames from the connection to their run, and sends the user's actions.
// The state of an answer is in its Run; unsent messages are in the Outbox.

import { cleared, isShell, isSigningOut, LATER, leaveShell, loadPageOfPerson } from "./offline.js"; // first: it says whose page it is
import { act } from "./actions.js";
import { call, rateSource, signIn } from "./api.js";
import { Composer } from "./composer.js";
import { App } from "./install.js";
import { Connection, socketUrl } from "./connection.js";
import { isMessage, Run, textOf } from "./conversation.js";
import { Log } from "./log.js";
import { decisionsOver, offerDecisions, openCards, showNotice, toast } from "./notices.js";
import { frameBytes, frameOf, Outbox, randomId, resendable } from "./outbox.js";
import { Picker } from "./picker.js";
import { Push } from "./push.js";
import { Settings } from "./settings.js";
import { takeShared } from "./share.js";
import { listenForShortcuts } from "./shortcuts.js";
import { Sidebar, sidebarToggle } from "./sidebar.js";
import { tabStorage } from "./storage.js";
import { gettext } from "./texts.js";
import { sendTimeZone } from "./time-zone.js";
import { Turn } from "./turn.js";
import { tellVisibility } from "./visibility.js";

// Each has a method of the chat.
const FRAMES = new Set(["accepted", "final", "progress", "error", "notice", "assistant", "chats"]);
const SOON = 300;
const AGAIN = 1000;
// After so many the gateway is not only starting anew.
const REFUSALS = 3;
const STOPPING = gettext("Stopping…");
const TOO_LARGE = gettext("This message is too large. Send the text and the files in several messages.");

class Chat {
  #runs = new Map();
  #turns = [];
  #resuming = new Set();
  #refused = new Set();
  #missed = new Set();
  #sent = new Set();
  #opening = 0;
  #reload = null;
  #filled = false;
  #isBehind = false;
  #again = null;
  #leaving = null;
  #connections = 0;
  #refusals = 0;

  constructor() {
    this.session = document.body.dataset.session || null;
    this.outbox = new Outbox({
      storage: tabStorage,
      newId: randomId,
      person: document.body.dataset.person,
    });
    this.settings = new Settings({ changed: () => this.#redrawWaiting(), failed: toast });
    this.log = new Log({
      suggest: (text) => this.composer.offer(text),
      update: (run, key) => this.#turnOf(run)?.update(key),
    });
    this.drawer = sidebarToggle();
    this.sidebar = new Sidebar({
      open: (id) => this.open(id),
      removed: (id) => id === this.session && this.open(null),
      renamed: (id, title) => id === this.session && this.log.setTitle(title),
      failed: (words) => {
        if (!isShell()) toast(words);
      },
    });
    this.composer = new Composer({
      send: (text, files) => this.say(text, files),
      stop: () => this.stop(),
      page: (direction) => this.log.page(direction),
      recall: () => this.edit(this.#turns.findLast((turn) => turn.said?.text)?.said),
      failed: toast,
    });
    this.picker = new Picker({ announce: (words) => this.log.announce(words), failed: toast });
    this.connection = new Connection({
      open: () => new WebSocket(socketUrl(document.body.dataset.person)),
      on: {
        open: () => this.#connected(),
        frame: (frame) => this.#frame(frame),
        state: (state) => this.#connectionState(state),
        signedOut: () => isSigningOut() || signIn(),
        otherPerson: loadPageOfPerson,
        refused: () => this.#refusedConnection(),
      },
    });
    this.app = new App();
    this.push = new Push({ open: (id) => this.open(id), failed: toast });
    this.visibility = tellVisibility((frame) => this.connection.send(frame));
    this.turnEvents = {
      retry: (said) => this.say(said.text, resendable(said.media)),
      edit: (said) => this.edit(said),
      rate: document.body.dataset.feedback ? (rating) => rateSource(rating).catch((error) => toast(error.message)) : null,
      showProgress: () => this.settings.showProgress,
    };
  }

  start() {
    for (const button of document.querySelectorAll("[data-new-chat]")) {
      button.addEventListener("click", () => this.open(null));
    }
    listenForShortcuts({
      stop: () => this.stop(),
      write: () => this.composer.focus(),
      newChat: () => this.open(null),
      search: () => this.sidebar.search(() => this.drawer.show(true)),
    });
    // A link within the page comes here, too, with the chat that is open.
    addEventListener("popstate", () => sessionOfPath() === this.session || this.open(sessionOfPath(), { push: false }));
    // Offline too: the socket of a network that is gone says nothing. One to this machine comes back at once.
    for (const name of ["online", "offline"]) addEventListener(name, () => this.connection.restart());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState !== "visible") return;
      this.connection.wake();
      this.log.renewTimes();
    });
    const unsent = this.outbox.entries.find((entry) => !entry.session_id);
    this.open(this.session, { push: false, key: unsent?.chat });
    this.sidebar.refresh();
    this.connection.start();
    this.app.start();
    this.push.start();
    const add = (text, files) => this.composer.add(text, files);
    cleared.then(() => takeShared({ add, failed: toast }));
  }

  /** Show a chat (null: a new one). */
  async open(id, { push = true, key = `new-${randomId()}` } = {}) {
    const opening = ++this.#opening;
    this.session = id;
    this.key = id ?? key;
    this.#runs.clear();
    this.#turns = [];
    this.#filled = false;
    clearTimeout(this.#again);
    this.#again = null;
    this.log.clear({ loading: id !== null });
    const path = id ? `/c/${id}` : "/";
    if (push && path !== location.pathname) history.pushState(null, "", path);
    this.sidebar.select(id);
    this.log.setTitle(this.sidebar.title(id));
    this.composer.open(id);
    this.picker.open(id);
    this.drawer.closeOnPhone();
    this.#updateBusy();
    // At once; a chat that comes unasked takes no focus.
    if (push || document.activeElement === document.body) this.composer.focus();
    if (id !== null) await this.#load(id, opening);
    this.#showUnsent();
  }

  async #load(id, opening) {
    const isOld = () => opening !== this.#opening || this.#filled;
    try {
      const found = await call(`/chat/sessions/${id}/messages`);
      if (isOld()) return;
      this.#again = null;
      this.#fill(found);
    } catch (error) {
      if (isOld()) return;
      if (error.status === 404) {
        toast(gettext("This chat no longer exists."));
        this.open(null);
        return;
      }
      if (this.#again === null) {
        this.#turns = [];
        this.log.failed(error.message, () => this.open(id, { push: false }));
      }
      clearTimeout(this.#again);
      this.#again = setTimeout(() => this.#loadAgain(), LATER);
    }
  }

  /** Load a chat that could not be loaded: with the next connection, and again and again meanwhile. */
  async #loadAgain() {
    clearTimeout(this.#again);
    await this.#load(this.session, this.#opening);
    this.#showUnsent();
  }

  #fill({ session, turns, earlier }) {
    const news = this.#turns; // said while the chat was loading
    this.log.clear({ loading: false });
    this.#turns = [];
    this.log.setTitle(session.title);
    for (const stored of turns) this.#addStored(stored);
    const shown = new Set(turns.map((stored) => stored.run_id));
    for (const turn of news.filter((each) => !shown.has(each.run?.id))) this.#add(turn);
    this.log.offerEarlier(earlier ? () => this.#loadEarlier(earlier) : null);
    this.log.toEnd();
    this.#filled = true;
    this.#updateBusy();
    this.#catchUpIfBehind();
  }

  async #loadEarlier(before) {
    const opening = this.#opening;
    const found = await call(`/chat/sessions/${this.session}/messages?before=${before}`).catch((error) => toast(error.message));
    if (opening !== this.#opening) return;
    if (found === undefined) {
      this.log.offerEarlier(() => this.#loadEarlier(before));
      return;
    }
    this.log.prepending(() => {
      for (const stored of found.turns.reverse()) this.#addStored(stored, { first: true });
      this.log.offerEarlier(found.earlier ? () => this.#loadEarlier(found.earlier) : null);
    });
  }

  #addStored(stored, { first = false } = {}) {
    const turn = new Turn({ said: stored.said, on: this.turnEvents });
    const run = this.#runs.get(stored.run_id) ?? new Run(stored.run_id, this.session);
    if (stored.answer && run.final === null) {
      run.parts.clear();
      run.restore(stored.answer.parts, stored.answer);
    }
    turn.bind(run);
    this.#add(turn, { first });
    if (stored.run_id === null) return;
    this.#runs.set(stored.run_id, run);
    if (stored.state === "held") {
      run.note({ message: gettext("Waiting for the owner") });
      turn.wait();
    }
    if (run.final === null) this.#resume(run);
  }

  #add(turn, { first = false } = {}) {
    if (first) this.#turns.unshift(turn);
    else this.#turns.push(turn);
    this.log.add(turn.node, { first });
  }

  #showUnsent() {
    for (const entry of this.outbox.entries) {
      const here = entry.session_id ? entry.session_id === this.session : entry.chat === this.key;
      const shown = this.#turns.some((turn) => turn.clientId === entry.client_id);
      if (here && !shown) this.#addPending(entry);
    }
  }

  /** Send a message in this chat. */
  say(text, files = []) {
    const choice = this.picker.wanted;
    const entry = this.outbox.add({ text, sessionId: this.session, chat: this.key, files, choice });
    this.#addPending(entry);
    this.#flushSoon();
  }

  /** Put a sent message into the box, to be edited and sent again. */
  edit(said) {
    if (said === undefined || this.composer.offer(said.text, resendable(said.media))) return;
    toast(gettext("Send or clear the text in the message box first."));
  }

  #addPending(entry) {
    const said = { text: entry.text, at: null, media: entry.files };
    const turn = new Turn({ said, clientId: entry.client_id, on: this.turnEvents });
    this.#add(turn);
    this.log.toEnd();
    turn.isStopping = Boolean(entry.isStopped);
    this.#showWaiting(turn);
    this.#updateBusy();
  }

  /** Send what waits, after a choice that is on its way. */
  #flushSoon() {
    if (this.picker.saving) this.picker.saving.then(() => this.#flush());
    else this.#flush();
  }

  /** Send each message once on a connection: the limits of the gateway count those sent again. */
  #flush() {
    for (const entry of this.outbox.sendable().filter((each) => !this.#sent.has(each.client_id))) {
      const frame = frameOf(entry);
      // It would end the connection, and be sent again on each new one.
      if (frameBytes(frame) > Number(document.body.dataset.maxFrameBytes)) this.error({ client_id: entry.client_id, error: TOO_LARGE });
      else if (this.connection.send(frame)) {
        this.#sent.add(entry.client_id);
        this.outbox.mark(entry.client_id, { wasSent: true });
      }
    }
  }

  /** Stop the answers that are being made here. */
  stop() {
    for (const turn of this.#waiting()) this.#stopWaiting(turn);
    for (const run of this.#openRuns()) this.#stopRun(run);
  }

  #stopRun(run) {
    run.stopping = true;
    this.#sendStop(run);
    run.note({ message: STOPPING });
    this.#turnOf(run)?.wait();
  }

  /** Stop a message that has no run yet as soon as it has one; one that was not sent comes back into the box. */
  #stopWaiting(turn) {
    if (this.connection.isOpen || this.outbox.of(turn.clientId)?.wasSent) {
      this.outbox.mark(turn.clientId, { isStopped: true });
      turn.isStopping = true;
      this.#showWaiting(turn);
      return;
    }
    const { text, files } = this.outbox.remove(turn.clientId);
    this.#drop(turn);
    this.composer.keep(this.session, text, files);
    this.#updateBusy();
  }

  /** Stop the run of a message that was stopped before, perhaps in a chat that is not open now. */
  #stopAccepted(runId) {
    const run = this.#runs.get(runId) ?? new Run(runId, null);
    if (run.final === null) this.#stopRun(run);
  }

  #sendStop(run) {
    this.connection.send({ type: "stop", run_id: run.id });
  }

  async #connected() {
    const number = ++this.#connections;
    if (isShell() && (await this.#isLeaving())) return;
    if (number === this.#connections && this.connection.isOpen) this.#begin();
  }

  /** Whether the page itself comes in place of the shell; else ask again later. */
  async #isLeaving() {
    clearTimeout(this.#leaving);
    const isLeft = await leaveShell({ attachments: this.composer.attachments });
    if (!isLeft) this.#leaving = setTimeout(() => this.connection.isOpen && this.#isLeaving(), LATER);
    return isLeft;
  }

  #begin() {
    this.#refusals = 0;
    this.visibility();
    this.#resuming.clear();
    this.#sent.clear();
    this.#flush();
    offerDecisions(); // one may have been lost
    const cards = openCards();
    if (cards.length) this.connection.send({ type: "shown", cards });
    // The connection that a stop was sent on may have been dead.
    for (const run of this.#openRuns()) this.#follow(run);
    this.sidebar.refresh();
    this.picker.refresh();
    if (this.#again !== null) this.#loadAgain();
    this.#catchUpSoon();
    if (document.body.dataset.wantsTimeZone) {
      sendTimeZone(call);
      delete document.body.dataset.wantsTimeZone;
    }
  }

  /** Look soon for turns of this chat that came while nobody listened, or from elsewhere. */
  #catchUpSoon() {
    this.#reload ??= setTimeout(() => {
      this.#reload = null;
      this.#catchUp();
    }, SOON);
  }

  /** Add the turns that came since the page was filled; what is read, and written, stays. */
  async #catchUp() {
    const [id, opening] = [this.session, this.#opening];
    if (id === null) return;
    // What is on its way may be among the new turns: `accepted` says which.
    if (!this.#filled || this.outbox.entries.some((entry) => entry.session_id === id)) {
      this.#isBehind = true;
      return;
    }
    const found = await call(`/chat/sessions/${id}/messages`).catch(() => null);
    if (found === null || opening !== this.#opening) return;
    const known = ({ run_id: runId }) => runId === null || this.#runs.has(runId);
    const news = found.turns.filter((stored) => !known(stored));
    if (news.length > 0 && news.length === found.turns.length && this.#runs.size > 0) {
      this.open(id, { push: false });
      return;
    }
    this.log.keepAtEnd(() => {
      for (const stored of news) this.#addStored(stored);
    });
    const answered = news.filter((stored) => stored.answer);
    if (answered.length) this.log.speak(this.#turns.at(-1));
    this.#updateBusy();
  }

  #follow(run) {
    this.#resume(run);
    if (run.stopping) this.#sendStop(run);
  }

  /** What the gateway refused of an open run for now: ask again in a moment. */
  #followAgain(run) {
    if (this.#refused.has(run)) return;
    this.#refused.add(run);
    setTimeout(() => {
      this.#refused.delete(run);
      this.#resuming.delete(run.id);
      if (this.#openRuns().includes(run)) this.#follow(run);
    }, AGAIN);
  }

  #resume(run) {
    if (this.#resuming.has(run.id)) return;
    const sent = this.connection.send({ type: "resume", run_id: run.id, after: run.seq });
    if (sent) this.#resuming.add(run.id);
  }

  #frame(frame) {
    if (isMessage(frame)) this.#message(frame);
    else if (FRAMES.has(frame.type)) this[frame.type](frame);
  }

  #message(frame) {
    const run = this.#runs.get(frame.run_id);
    if (run === undefined) {
      this.#stranger(frame, { busy: true });
      return;
    }
    const { outcome, key, part, event } = run.take(frame);
    if (outcome === "gap") this.#resume(run);
    if (outcome !== "applied") return;
    this.#resuming.delete(run.id);
    if (part?.type === "action") act(`${run.id} ${frame.seq}`, part.props, this.#page());
    if (key) this.log.paintSoon(run, key);
    else this.log.keepAtEnd(() => this.#turnOf(run)?.wait());
    if (event === "tool_end") this.#turnOf(run)?.showTools();
    if (event === "stream_start") this.sidebar.activity(run.sessionId, { busy: true });
  }

  /** A frame of a run that is not on this page: of another chat, or begun in another window. */
  #stranger(frame, { busy }) {
    this.#missed.add(frame.run_id);
    if (frame.session_id !== this.session) {
      this.sidebar.activity(frame.session_id, { busy });
    } else {
      this.#catchUpSoon();
    }
  }

  accepted(frame) {
    const entry = this.outbox.accepted(frame.client_id, frame.session_id);
    if (entry === undefined) return;
    if (entry.chat === this.key || frame.session_id === this.session) this.#acceptedHere(frame, entry);
    if (entry.isStopped) this.#stopAccepted(frame.run_id);
    this.#flushSoon(); // what waited for the session of its chat
  }

  #acceptedHere(frame, entry) {
    if (this.session === null) this.#adopt(frame.session_id, entry.choice);
    const turn = this.#turns.find((each) => each.clientId === frame.client_id);
    if (turn && this.#runs.has(frame.run_id)) this.#drop(turn);
    else if (turn) this.#start(turn, frame.run_id);
    else this.#catchUpSoon();
    this.#updateBusy();
    this.#catchUpIfBehind();
  }

  /** Turns that came while a message was on its way were not looked for then. */
  #catchUpIfBehind() {
    if (this.#isBehind) this.#catchUpSoon();
    this.#isBehind = false;
  }

  #start(turn, runId) {
    const run = new Run(runId, this.session);
    this.#runs.set(runId, run);
    turn.clientId = null;
    turn.bind(run);
    // A message sent twice (the first answer was lost): its run may be well on its way.
    if (this.#missed.delete(runId)) this.#resume(run);
  }

  #drop(turn) {
    turn.node.remove();
    this.#turns = this.#turns.filter((each) => each !== turn);
  }

  #adopt(id, choice) {
    this.session = id;
    this.#filled = true;
    history.replaceState(null, "", `/c/${id}`);
    this.picker.adopt(id, choice);
    this.composer.rename(id);
    this.sidebar.select(id);
    this.#findTitle(id);
  }

  final(frame) {
    const run = this.#runs.get(frame.run_id);
    if (run === undefined) {
      this.#stranger(frame, { busy: false });
      return;
    }
    if (frame.seq > run.seq) {
      this.#resume(run);
      return;
    }
    this.log.paint();
    if (!run.finish(frame)) return;
    const turn = this.#turnOf(run);
    this.log.keepAtEnd(() => turn?.finish());
    this.log.speak(turn);
    this.sidebar.activity(run.sessionId, { busy: false });
    // The first message may have been a command, which gives no title; /new takes it away.
    if (!this.sidebar.title(run.sessionId) || turn?.said?.text.startsWith("/new")) this.#findTitle(run.sessionId);
    this.#updateBusy();
  }

  async #findTitle(id) {
    await this.sidebar.refresh();
    if (id === this.session) this.log.setTitle(this.sidebar.title(id));
  }

  progress(frame) {
    const run = this.#runs.get(frame.run_id);
    if (run === undefined) return;
    run.note(frame);
    this.log.keepAtEnd(() => this.#turnOf(run)?.wait());
  }

  error(frame) {
    const message = textOf(frame.error) || gettext("The gateway refused the request.");
    const entry = frame.client_id ? this.outbox.remove(frame.client_id) : undefined;
    const turn = entry && this.#turns.find((each) => each.clientId === entry.client_id);
    if (entry?.session_id && frame.field === "session_id") {
      this.#deletedElsewhere(entry, message);
    } else if (turn) {
      turn.clientId = null;
      turn.refuse(message);
      this.composer.offer(entry.text, entry.files);
      if (["assistant_id", "model_id"].includes(frame.field)) this.picker.forget();
      this.#catchUpIfBehind();
    } else if (entry) {
      this.composer.keep(entry.session_id, entry.text, entry.files);
      toast(message);
    } else if (this.#runs.has(frame.run_id)) {
      const run = this.#runs.get(frame.run_id);
      if (frame.status === 404) this.#lost(run, message);
      else this.#followAgain(run);
    } else if (frame.field !== "type") { // else of a gateway that is older than this page
      toast(message);
      offerDecisions(); // one of them may have been refused
    }
    // What waited behind it in a new chat; not at once, as a flush may have refused it.
    if (entry) queueMicrotask(() => this.#flushSoon());
    this.#updateBusy();
  }

  /** The chat of a refused message is gone: its words, and the draft there, are for a new one. */
  #deletedElsewhere(entry, message) {
    this.composer.keep(null, entry.text, entry.files);
    if (entry.session_id === this.session) {
      this.composer.leave();
      this.open(null);
    }
    this.sidebar.refresh();
    toast(message);
  }

  /** The gateway does not know the run (any more): it will send no answer. */
  #lost(run, message) {
    if (!run.finish({ error: message })) return;
    this.log.keepAtEnd(() => this.#turnOf(run)?.finish());
    this.log.announce(message);
  }

  notice(frame) {
    this.log.keepAtEnd(() => showNotice(frame, decisionsOver(this.connection)));
  }

  assistant(frame) {
    if (frame.session_id === this.session) this.picker.refresh();
  }

  async chats() {
    await this.sidebar.refresh();
    const title = this.sidebar.title(this.session);
    if (title) this.log.setTitle(title);
  }

  #page() {
    return {
      openSettings: () => this.settings.open(),
      openSidebar: () => this.drawer.show(true),
      refresh: () => this.open(this.session, { push: false }),
      goTo: (url) => location.assign(url),
    };
  }

  #openRuns() {
    return [...this.#runs.values()].filter((run) => run.final === null);
  }

  /** The turns whose messages the gateway has not accepted yet. */
  #waiting() {
    return this.#turns.filter((turn) => turn.clientId !== null);
  }

  #turnOf(run) {
    return this.#turns.find((turn) => turn.run === run);
  }

  #redrawWaiting() {
    for (const run of this.#openRuns()) this.#turnOf(run)?.wait();
  }

  #updateBusy() {
    this.composer.setBusy(this.#openRuns().length > 0 || this.#waiting().length > 0);
    this.log.showWelcome(this.#turns.length === 0 && this.session === null);
  }

  /** A person who is signed out goes to sign in; a gateway that answers pages may be behind a proxy that passes
   * no sockets. */
  async #refusedConnection() {
    const isThere = await call("/chat/sessions").catch(() => null);
    this.#refusals = isThere ? this.#refusals + 1 : 0;
  }

  #connectionState(state) {
    this.log.connection(state === "waiting" && this.#refusals >= REFUSALS ? "blocked" : state);
    for (const turn of this.#waiting()) this.#showWaiting(turn);
  }

  #showWaiting(turn) {
    const words = this.connection.isOpen ? "" : gettext("Waiting for the connection…");
    turn.pending(turn.isStopping ? STOPPING : words);
  }
}

function sessionOfPath() {
  return /^\/c\/([\w-]{22})$/.exec(location.pathname)?.[1] ?? null;
}

new Chat().start();
