// One WebSocket that reconnects: exponential back-off with jitter, and a heartbeat that detects a dead
// connection. It does not interpret frames.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const HEARTBEAT = 25_000;
const PATIENCE = 10_000;

const TOO_MANY = 4429;

export class Connection {
  #open;
  #on;
  #clock;
  #socket = null;
  #failures = 0;
  #retry = null;
  #beat = null;
  #deadline = null;

  /**
   * open() makes a WebSocket. on: {open, frame, state, signedOut, otherPerson, refused}. clock: {set,
   * clear, random}, the browser's timers unless a test says otherwise.
   */
  constructor({ open, on, clock = BROWSER_CLOCK }) {
    this.#open = open;
    this.#on = on;
    this.#clock = clock;
  }

  get isOpen() {
    return this.#socket !== null && this.#socket.readyState === 1;
  }

  /** Connect now, unless a connection is there or under way. */
  start() {
    if (this.#socket !== null) return;
    this.#clock.clear(this.#retry);
    this.#retry = null;
    this.#on.state("connecting");
    const socket = this.#open();
    let opened = false;
    this.#socket = socket;
    // A server that dies during the handshake may never answer.
    this.#deadline = this.#clock.set(() => {
      socket.close();
      this.#closed(socket, 1006, opened);
    }, PATIENCE);
    socket.onopen = () => {
      opened = true;
      this.#clock.clear(this.#deadline);
      this.#deadline = null;
      this.#failures = 0;
      this.#on.state("open");
      this.#waitForBeat();
      this.#on.open();
    };
    socket.onmessage = (message) => this.#receive(message.data);
    socket.onclose = (event) => this.#closed(socket, event.code, opened);
  }

  /** Connect, or look whether the connection is there: that of a page that slept may be dead. */
  wake() {
    if (this.isOpen) this.#ping();
    else this.start();
  }

  /** Send a frame; false when there is no connection to send it on. */
  send(frame) {
    if (!this.isOpen) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** Reconnect immediately: the connection may be dead. */
  restart() {
    const socket = this.#socket;
    this.#failures = 0;
    if (socket === null) {
      this.start();
      return;
    }
    socket.close();
    this.#closed(socket, 1006, true);
  }

  #receive(data) {
    this.#clock.clear(this.#deadline);
    this.#deadline = null;
    this.#waitForBeat();
    const frame = parse(data);
    if (frame !== null && frame.type !== "pong") this.#on.frame(frame);
  }

  #waitForBeat() {
    this.#clock.clear(this.#beat);
    this.#beat = this.#clock.set(() => this.#ping(), HEARTBEAT);
  }

  #ping() {
    this.send({ type: "ping" });
    this.#deadline ??= this.#clock.set(() => this.restart(), PATIENCE);
  }

  #closed(socket, code, opened) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    this.#clock.clear(this.#beat);
    this.#clock.clear(this.#deadline);
    const leave = { 4401: this.#on.signedOut, 4409: this.#on.otherPerson }[code];
    if (leave) {
      this.#on.state("signed-out");
      leave();
      return;
    }
    if (!opened) this.#on.refused();
    this.#failures += 1;
    const wait = this.#wait(code);
    this.#on.state("waiting");
    this.#retry = this.#clock.set(() => this.start(), wait);
  }

  #wait(code) {
    if (code === TOO_MANY) return LONGEST_WAIT;
    const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (this.#failures - 1));
    return longest / 2 + (this.#clock.random() * longest) / 2;
  }
}

const BROWSER_CLOCK = {
  set: (call, milliseconds) => setTimeout(call, milliseconds),
  clear: (timer) => clearTimeout(timer),
  random: () => Math.random(),
};

function parse(data) {
  try {
    const frame = JSON.parse(data);
    return typeof frame === "object" && frame !== null ? frame : null;
  } catch {
    return null;
  }
}

/**
 * Only ever this page's own host: no parameter of the address can name another. `person`: whose page
 * this is; the gateway refuses it when the cookie is another person's by now.
 */
export function socketUrl(person) {
  return socketOf(`/ws?person=${encodeURIComponent(person)}`);
}

/** The address of a WebSocket of this page's host. */
export function socketOf(path) {
  return `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}${path}`;
}
