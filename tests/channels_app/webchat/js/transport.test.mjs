// What is on its way: nothing is lost, nothing goes out as two messages; the line comes back.
import assert from "node:assert/strict";
import { test } from "node:test";

const { Outbox, frameOf, resendable } = await import(`${process.env.LATCHKEY_JS}/outbox.js`);
const { PageStorage } = await import(`${process.env.LATCHKEY_JS}/storage.js`);
const { tellVisibility } = await import(`${process.env.LATCHKEY_JS}/visibility.js`);
const { Connection } = await import(`${process.env.LATCHKEY_JS}/connection.js`);

function storage() {
  const kept = new Map();
  return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value), removeItem: (key) => kept.delete(key) };
}

function outbox(store = storage(), person = "1") {
  let count = 0;
  return new Outbox({ storage: store, newId: () => `c${(count += 1)}-${Math.random()}`, person });
}

test("what one person has not sent is nothing to the next in the same tab", () => {
  const store = storage();
  outbox(store, "1").add({ text: "a", sessionId: null, chat: "n" });
  assert.deepEqual(outbox(store, "2").entries, []);
  assert.equal(outbox(store, "1").entries.length, 1);
});

test("a message stays until it is accepted, over a reload too", () => {
  const store = storage();
  const entry = outbox(store).add({ text: "a", sessionId: "s", chat: "s" });
  const later = outbox(store);
  assert.deepEqual(later.sendable().map((each) => each.client_id), [entry.client_id]);
  later.accepted(entry.client_id, "s");
  assert.deepEqual(outbox(store).entries, []);
  assert.equal(later.accepted(entry.client_id, "s"), undefined);
});

test("of a chat without session only the first goes out; the others wait for its session", () => {
  const box = outbox();
  const first = box.add({ text: "a", sessionId: null, chat: "new-1" });
  box.add({ text: "b", sessionId: null, chat: "new-1" });
  box.add({ text: "c", sessionId: null, chat: "new-2" });
  assert.deepEqual(box.sendable().map((each) => each.text), ["a", "c"]);
  box.accepted(first.client_id, "S");
  assert.deepEqual(box.sendable().map((each) => [each.text, each.session_id]), [["b", "S"], ["c", null]]);
});

test("a choice goes with the first message of a chat only", () => {
  const box = outbox();
  const choice = { assistant_id: 3, model_id: 0 };
  const first = box.add({ text: "a", sessionId: null, chat: "n", choice });
  const second = box.add({ text: "b", sessionId: null, chat: "n", choice });
  assert.deepEqual(frameOf(first), { type: "message", text: "a", client_id: first.client_id, ...choice });
  box.accepted(first.client_id, "S");
  assert.deepEqual(frameOf(second), { type: "message", text: "b", client_id: second.client_id, session_id: "S" });
});

test("a frame has its session and files only when there are some", () => {
  const box = outbox();
  const entry = box.add({ text: "a", sessionId: null, chat: "n" });
  assert.deepEqual(frameOf(entry), { type: "message", text: "a", client_id: entry.client_id });
});

test("a full or broken storage loses nothing of this page", () => {
  const broken = { getItem: () => "{nonsense", setItem: () => { throw new Error("full"); } };
  const store = new PageStorage(() => broken);
  const box = outbox(store);
  box.add({ text: "a", sessionId: "s", chat: "s" });
  assert.equal(box.sendable().length, 1);
  assert.equal(store.isStored, false);
});

test("what a forbidden or full storage does not take is kept by the page until it does", () => {
  const store = storage();
  let problem = new Error("forbidden");
  const page = new PageStorage(() => {
    if (problem) throw problem;
    return store;
  });
  assert.equal(page.getItem("draft"), null);
  assert.equal(page.setItem("draft", "a"), false);
  assert.deepEqual([page.getItem("draft"), page.isStored], ["a", false]);
  problem = null;
  assert.equal(page.setItem("draft", "ab"), true);
  assert.deepEqual([page.getItem("draft"), store.getItem("draft"), page.isStored], ["ab", "ab", true]);
  page.removeItem("draft");
  assert.equal(page.getItem("draft"), null);
});

class Wire {
  sent = [];
  readyState = 0;
  send(data) { this.sent.push(JSON.parse(data)); }
  close() { this.readyState = 3; }
  opens() { this.readyState = 1; this.onopen(); }
  brings(frame) { this.onmessage({ data: typeof frame === "string" ? frame : JSON.stringify(frame) }); }
  dies(code = 1006) { this.readyState = 3; this.onclose({ code }); }
}

function connected() {
  const wires = [];
  const timers = new Map();
  const heard = { frames: [], states: [], opened: 0, signedOut: 0, otherPerson: 0, refused: 0 };
  let next = 0;
  const clock = {
    set: (call, ms) => { timers.set((next += 1), { call, ms }); return next; },
    clear: (id) => timers.delete(id),
    random: () => 1,
  };
  const connection = new Connection({
    open: () => { wires.push(new Wire()); return wires.at(-1); },
    clock,
    on: {
      open: () => { heard.opened += 1; },
      frame: (frame) => heard.frames.push(frame),
      state: (state) => heard.states.push(state),
      signedOut: () => { heard.signedOut += 1; },
      otherPerson: () => { heard.otherPerson += 1; },
      refused: () => { heard.refused += 1; },
    },
  });
  const fire = () => { const [[id, timer]] = timers; timers.delete(id); timer.call(); return timer.ms; };
  connection.start();
  return { connection, wires, timers, heard, fire };
}

test("a line that is lost comes back, waiting longer each time", () => {
  const { wires, heard, fire, timers } = connected();
  const waits = [];
  for (let round = 0; round < 8; round += 1) {
    wires.at(-1).dies();
    assert.equal(timers.size, 1);
    waits.push(fire());
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
  assert.equal(heard.refused, 8);
  wires.at(-1).opens();
  wires.at(-1).dies();
  assert.equal([...timers.values()].at(-1).ms, 500);
});

test("frames are passed on; pongs and nonsense are not", () => {
  const { wires, heard } = connected();
  wires[0].opens();
  for (const frame of [{ type: "pong" }, "{", "5", "null", { type: "final" }]) wires[0].brings(frame);
  assert.deepEqual(heard.frames, [{ type: "final" }]);
});

test("a line that does not answer its heartbeat is dropped and made anew", () => {
  const { wires, fire } = connected();
  wires[0].opens();
  fire();
  assert.deepEqual(wires[0].sent, [{ type: "ping" }]);
  fire();
  assert.equal(wires[0].readyState, 3);
});

test("a page that slept finds out at once whether its line is still there", () => {
  const { connection, wires, fire, timers } = connected();
  wires[0].opens();
  connection.wake();
  connection.wake();
  assert.deepEqual(wires[0].sent, [{ type: "ping" }, { type: "ping" }]);
  assert.equal(timers.size, 2); // the next beat, and one wait for the pong
  wires[0].brings({ type: "pong" });
  assert.deepEqual([...timers.values()].map(({ ms }) => ms), [25_000]);
  connection.wake();
  fire();
  fire();
  assert.equal(wires[0].readyState, 3);
  connection.wake();
  assert.equal(wires.length, 2);
});

test("an answer that is no JSON is an error: a proxy has given its own page", async (context) => {
  const { call } = await import(`${process.env.LATCHKEY_JS}/api.js`);
  context.mock.method(globalThis, "fetch", async () => new Response("<title>Sign in</title>"));
  await assert.rejects(call("/chat/sessions"), { status: 200, message: /HTTP 200/ });
});

test("a post waits for the one before it to its address, whatever became of that", async (context) => {
  const { call } = await import(`${process.env.LATCHKEY_JS}/api.js`);
  context.after(() => delete globalThis.document);
  globalThis.document = { querySelector: () => null };
  const asked = [];
  const answer = (path, { body }) => new Promise((answered) => asked.push([`${path} ${body}`, answered]));
  context.mock.method(globalThis, "fetch", answer);
  const first = assert.rejects(call("/a", { is: 1 }), { status: 503 });
  const second = call("/a", { is: 2 });
  for (const path of ["/b", "/a"]) call(path, path === "/b" ? {} : undefined);
  await new Promise(setImmediate);
  assert.deepEqual(asked.map(([words]) => words), ['/a {"is":1}', "/b {}", "/a undefined"]);
  asked[0][1](Response.json({}, { status: 503 }));
  await first;
  await new Promise(setImmediate);
  assert.equal(asked[3][0], '/a {"is":2}');
  for (const [, answered] of asked) answered(Response.json({ ok: true }));
  assert.deepEqual(await second, { ok: true });
});

test("a post waits no longer for one whose answer never ends", async (context) => {
  const { call } = await import(`${process.env.LATCHKEY_JS}/api.js`);
  context.after(() => delete globalThis.document);
  globalThis.document = { querySelector: () => null };
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const bodies = [];
  context.mock.method(globalThis, "fetch", async (_path, { body, signal }) => {
    bodies.push(body);
    const json = () => new Promise((_, fail) => signal.addEventListener("abort", fail));
    return { ok: true, status: 200, json };
  });
  const first = assert.rejects(call("/c", { is: 1 }));
  call("/c", { is: 2 }).catch(() => null);
  await new Promise(setImmediate);
  context.mock.timers.tick(30_000);
  await first;
  await new Promise(setImmediate);
  assert.deepEqual(bodies, ['{"is":1}', '{"is":2}']);
});

test("who is signed out is told, and the line stays down", () => {
  const { wires, heard, timers } = connected();
  wires[0].opens();
  wires[0].dies(4401);
  assert.equal(heard.signedOut, 1);
  assert.equal(timers.size, 0);
});

test("a page of somebody else than the cookie is told, and the line stays down", () => {
  const { wires, heard, timers } = connected();
  wires[0].opens();
  wires[0].dies(4409);
  assert.equal(heard.otherPerson, 1);
  assert.equal(timers.size, 0);
});

test("nothing is sent on a line that is not open", () => {
  const { connection, wires } = connected();
  assert.equal(connection.send({ type: "ping" }), false);
  wires[0].opens();
  assert.equal(connection.send({ type: "ping" }), true);
});

test("starting twice makes one line; what an old line says later changes nothing", () => {
  const { connection, wires, timers } = connected();
  connection.start();
  assert.equal(wires.length, 1);
  wires[0].opens();
  connection.restart();
  const waiting = timers.size;
  wires[0].dies();
  assert.equal(timers.size, waiting);
});

test("what a message brought goes with it again: data of the page, and files the gateway keeps", () => {
  const picture = "data:image/png;base64,AA==";
  assert.deepEqual(
    resendable([
      { kind: "image", url: picture, name: "a.png" },
      { kind: "file", name: "stored.md", file: "f1" },
      { name: "sent.md", id: "f2" },
      { kind: "file", name: "elsewhere", url: "https://example.org/x" },
      { kind: "file", name: "gone" },
    ]),
    [{ url: picture, name: "a.png" }, { id: "f1", name: "stored.md" }, { id: "f2", name: "sent.md" }],
  );
  assert.deepEqual(resendable(null), []);
});

test("a page says that it is visible again and again, and only while it is", (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const page = { visibilityState: "visible", addEventListener: (_, call) => (page.changed = call) };
  globalThis.document = page;
  const said = [];
  tellVisibility(({ visible }) => said.push(visible));
  context.mock.timers.tick(10_000);
  page.visibilityState = "hidden";
  page.changed();
  context.mock.timers.tick(60_000);
  assert.deepEqual(said, [true, true, false]);
  delete globalThis.document;
});
