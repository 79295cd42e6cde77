// A Latchkey bridge for chats with webhooks (Mattermost and the like), for Node 20. See bridge.md.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";

const names = ["GATEWAY_URL", "BRIDGE_KEY", "BRIDGE_SECRET", "BRIDGE_PORT", "OUTGOING_TOKEN", "INCOMING_URL"];
for (const name of names) if (!process.env[name]) throw new Error(`${name} is missing`);
const { GATEWAY_URL, BRIDGE_KEY, BRIDGE_SECRET, BRIDGE_PORT, OUTGOING_TOKEN, INCOMING_URL } = process.env;
const done = new Set(); // answers that were posted; the gateway may send one again

const digest = (...parts) => parts.reduce((made, part) => made.update(part), createHmac("sha256", BRIDGE_SECRET));
const sign = (stamp, body) => "v1=" + digest(`${stamp}.`, body).digest("hex");
const same = (one, other) => timingSafeEqual(digest(one).digest(), digest(other).digest());

// The chat's outgoing webhook: a new message, as JSON or as a form. The token proves that the chat sent it.
async function ask(body, { "content-type": type = "" }) {
  const said = type.includes("json") ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(`${body}`));
  if (!same(String(said.token), OUTGOING_TOKEN)) return 401;
  const { user_id, user_name, channel_name: chat_id, post_id: request_id, text } = said; // webhooks know channels by name
  const request = JSON.stringify({ user_id, user_name, chat_id, request_id, text });
  for (let tries = 1; ; tries += 1) {
    const stamp = String(Math.floor(Date.now() / 1000));
    const headers = {
      "Content-Type": "application/json",
      Authorization: `Bearer ${BRIDGE_KEY}`,
      "X-Latchkey-Timestamp": stamp,
      "X-Latchkey-Signature": sign(stamp, request),
    };
    const sent = await fetch(`${GATEWAY_URL}/process`, { method: "POST", headers, body: request }).catch(() => null);
    // The chat sends it only once: while the gateway is busy, full or away, it is kept here.
    if ((sent && ![429, 502, 503].includes(sent.status)) || tries === 60) return sent?.status ?? 502;
    await setTimeout(1000 * (Number(sent?.headers.get("retry-after")) || 5));
  }
}

// The gateway's callback: posted by the chat's incoming webhook. After anything but 2xx it is sent again.
async function answer(body, headers) {
  const stamp = headers["x-latchkey-timestamp"] ?? "";
  if (!same(headers["x-latchkey-signature"] ?? "", sign(stamp, body))) return 401;
  if (!(Math.abs(Date.now() / 1000 - Number(stamp)) < 300)) return 401;
  const { chat_id: channel, text: said, images = [], delivery_id } = JSON.parse(body);
  if (done.has(delivery_id)) return 204;
  // An answer notifies no whole channel; a webhook posts no pictures, and no empty text.
  const quiet = said.replace(/(?<![a-z0-9])(@|<!)(?=(?:all|channel|everyone|here)(?![a-z0-9]))/gi, "$1\u200b");
  const text = [quiet, images.length && `🖼 × ${images.length}`].filter(Boolean).join("\n");
  const post = { method: "POST", headers: { "Content-Type": "application/json" } };
  const posted = await fetch(INCOMING_URL, { ...post, body: JSON.stringify({ channel, text }) });
  if (posted.ok) done.add(delivery_id);
  return posted.ok ? 204 : 502;
}

createServer((request, response) => {
  const work = { "/outgoing": ask, "/get_response": answer }[request.url] ?? (() => 404);
  const said = request.toArray().then((parts) => work(Buffer.concat(parts), request.headers));
  said.catch(() => 502).then((status) => response.writeHead(status).end());
}).listen(Number(BRIDGE_PORT), "127.0.0.1", () => console.log("ready"));
