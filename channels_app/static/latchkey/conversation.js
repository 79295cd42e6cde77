// The state of answers, as a pure function of the frames that came. Frames of one run are taken
// in order, each once: `seq` is a frame's number, `after` that of the one before it. What is missing
// is asked for, what is old is dropped.

import { applyDelta } from "./merge.js";

/** Whether a frame is a message of the protocol (a custom type may be called "final"). */
export function isMessage(frame) {
  return Number.isInteger(frame.seq) && typeof frame.props === "object" && frame.props !== null;
}

/** One turn of the assistant. */
export class Run {
  constructor(id, sessionId) {
    this.id = id;
    this.sessionId = sessionId;
    this.seq = 0;
    this.parts = new Map();
    this.tools = new Map();
    this.progress = null;
    this.stopping = false;
    this.ended = false;
    this.final = null;
  }

  /** Take a message frame: "applied" with what changed, "duplicate", or "gap". */
  take(frame) {
    if (this.final !== null || frame.seq <= this.seq) return { outcome: "duplicate" };
    if (frame.after > this.seq) return { outcome: "gap" };
    this.seq = frame.seq;
    if (frame.type === "event") return { outcome: "applied", event: this.#event(frame) };
    const key = frame.message_id || `#${frame.seq}`;
    // HTML is trusted only from our own views and final frames, never in a message.
    const { html: _ignored, ...message } = frame;
    const part = applyDelta(this.parts.get(key), message);
    this.parts.set(key, part);
    if (part.type === "loading") this.progress = progressOf(part.props);
    else if (!OFF_PAGE.has(part.type)) this.progress = null;
    return { outcome: "applied", key, part };
  }

  /** Take a progress frame. */
  note(frame) {
    if (this.final === null) this.progress = progressOf(frame);
  }

  /** Take the final frame; false when the answer was complete already. */
  finish(frame) {
    if (this.final !== null) return false;
    this.final = frame;
    this.ended = true;
    this.progress = null;
    for (const [key, part] of this.parts) if (part.type === "loading") this.parts.delete(key);
    return true;
  }

  /** Fill from a stored answer: its messages, and the fields of its final frame. */
  restore(parts, final) {
    parts.forEach((part, at) => {
      this.parts.set(part.message_id || `#${at}`, part);
      if (part.waits) this.tools.set(part.props.id, "waits");
      else if (part.failed) this.tools.set(part.props.id, "failed");
    });
    this.finish(final);
  }

  /** How a tool call stands: "running", "done", "failed", or "waits" for a sign-in. */
  toolState(id) {
    return this.tools.get(id) ?? (this.ended ? "done" : "running");
  }

  /** The texts of the answer, as Markdown, for the clipboard. */
  text() {
    if (this.final?.text) return this.final.text;
    const texts = [...this.parts.values()].filter((part) => part.type === "text");
    return texts.map((part) => textOf(part.props.content)).join("\n\n");
  }

  #event(frame) {
    const name = textOf(frame.props.event);
    const data = frame.props.data ?? {};
    if (name === "stream_end") {
      this.ended = true;
      this.progress = null;
    } else if (name === "progress") {
      this.progress = progressOf({ message: frame.props.message, percent: data.percent });
    } else if (name === "tool_end") {
      this.progress = null;
      const failed = data.waits ? "waits" : "failed";
      this.tools.set(data.id, data.status === "error" ? failed : "done");
    } else if (!LIFECYCLE.has(name) && typeof frame.props.message === "string") {
      this.progress = progressOf(frame.props);
    }
    return name;
  }
}

const LIFECYCLE = new Set(["stream_start", "message_start", "message_end", "block_start", "block_end"]);
/** Types of messages that are not on the page. */
export const OFF_PAGE = new Set(["action", "event", "user_input", "loading"]);

function progressOf(source) {
  const percent = Number.isFinite(source.percent) ? Math.min(100, Math.max(0, source.percent)) : null;
  return { message: textOf(source.message), percent };
}

/** A string, or "". */
export function textOf(value) {
  return typeof value === "string" ? value : "";
}
