// Messages that the server has not acknowledged. They are stored per tab, so that a reload or
// a lost connection loses none, and are resent with the same client id, so that none is duplicated.

export class Outbox {
  #storage;
  #newId;
  #key;

  /** `storage`: as in storage.js. `person`: the user of the messages; another user of this tab must not send them. */
  constructor({ storage, newId, person }) {
    this.#storage = storage;
    this.#newId = newId;
    this.#key = `latchkey.outbox.${person}`;
    this.entries = read(storage, this.#key);
  }

  /**
   * Keep a message; `chat` is its session id, or a name of our own for a chat that has none yet,
   * whose first message takes the `choice` along: {assistant_id, model_id}, or null.
   */
  add({ text, sessionId, chat, files = [], choice = null }) {
    const entry = { client_id: this.#newId(), session_id: sessionId, chat, text, files, choice };
    this.entries.push(entry);
    this.#save();
    return entry;
  }

  /** What may go out now: of a chat without a session only the first, which makes the session. */
  sendable() {
    const started = new Set();
    return this.entries.filter((entry) => {
      if (entry.session_id) return true;
      const first = !started.has(entry.chat);
      started.add(entry.chat);
      return first;
    });
  }

  /** The server stored it: forget it, and give its session to what waited for that. */
  accepted(clientId, sessionId) {
    const entry = this.remove(clientId);
    if (entry === undefined) return undefined;
    for (const other of this.entries) {
      if (other.chat === entry.chat && !other.session_id) other.session_id = sessionId;
    }
    this.#save();
    return entry;
  }

  /** Note of a message, also over a reload, that it `wasSent`, and may be stored, or `isStopped`. */
  mark(clientId, marks) {
    Object.assign(this.of(clientId) ?? {}, marks);
    this.#save();
  }

  of(clientId) {
    return this.entries.find((entry) => entry.client_id === clientId);
  }

  /** Forget a message: it was stored, refused or taken back. */
  remove(clientId) {
    const at = this.entries.findIndex((entry) => entry.client_id === clientId);
    if (at < 0) return undefined;
    const [entry] = this.entries.splice(at, 1);
    this.#save();
    return entry;
  }

  #save() {
    this.#storage.setItem(this.#key, JSON.stringify(this.entries));
  }
}

function read(storage, key) {
  try {
    const found = JSON.parse(storage.getItem(key) ?? "[]");
    return Array.isArray(found) ? found.filter((entry) => typeof entry?.client_id === "string") : [];
  } catch {
    return [];
  }
}

/** The attachments of a message that can be resent: data of this page, and stored files. */
export function resendable(media) {
  return (Array.isArray(media) ? media : []).flatMap((item) => {
    const name = typeof item.name === "string" && item.name ? { name: item.name } : {};
    const id = item.file ?? item.id;
    if (typeof id === "string") return [{ id, ...name }];
    return typeof item.url === "string" && item.url.startsWith("data:") ? [{ url: item.url, ...name }] : [];
  });
}

/** The frame of an entry. */
export function frameOf(entry) {
  const frame = { type: "message", text: entry.text, client_id: entry.client_id };
  if (entry.session_id) frame.session_id = entry.session_id;
  else Object.assign(frame, entry.choice);
  if (entry.files?.length) frame.files = entry.files;
  return frame;
}

/** The length of a frame on the wire. */
export function frameBytes(frame) {
  return new TextEncoder().encode(JSON.stringify(frame)).length;
}

/** A random unique id. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
