// A Latchkey bridge for chats with webhooks (Mattermost and the like), for Node 20. See bridge.md.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const { GATEWAY_URL, BRIDGE_KEY, BRIDGE_SECRET, BRIDGE_PORT, OUTGOING_TOKEN, INCOMING_URL } = process.env;
const done = new Set(); // answers that were posted; the gateway may send one again

const sign = (stamp, body) =>
  "v1=" + createHmac("sha256", BRIDGE_SECRET).update(`${stamp}.`).update(body).digest("hex");

const same = (one, other) => one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));

// The chat's outgoing webhook: a new message. The token proves that the chat sent it.
async function ask(body) {
  const said = JSON.parse(body);
  if (!same(String(said.token), OUTGOING_TOKEN)) return 401;
  const request = JSON.stringify({
    user_id: said.user_id,
    user_name: said.user_name,
    chat_id: said.channel_id,
    request_id: said.post_id,
    text: said.text,
  });
  const stamp = String(Math.floor(Date.now() / 1000));
  const answer = await fetch(`${GATEWAY_URL}/process`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Authorization: `Bearer ${BRIDGE_KEY}`,
      "X-Latchkey-Timestamp": stamp,
      "X-Latchkey-Signature": sign(stamp, request),
    },
    body: request,
  });
  return answer.status;
}

// The gateway's callback: posted by the chat's incoming webhook. After anything but 2xx it is sent again.
async function answer(body, headers) {
  const stamp = headers["x-latchkey-timestamp"] ?? "";
  if (!same(headers["x-latchkey-signature"] ?? "", sign(stamp, body))) return 401;
  if (!(Math.abs(Date.now() / 1000 - Number(stamp)) < 300)) return 401;
  const { chat_id, text: said, delivery_id } = JSON.parse(body);
  // An answer notifies no whole channel.
  const text = said.replace(/(?<![a-z0-9])(@|<!)(?=(?:all|channel|everyone|here)(?![a-z0-9]))/gi, "$1\u200b");
  if (done.has(delivery_id)) return 204;
  const posted = await fetch(INCOMING_URL, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ channel: chat_id, text }),
  });
  if (posted.ok) done.add(delivery_id);
  return posted.ok ? 204 : 502;
}

createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  const work = { "/outgoing": ask, "/get_response": answer }[request.url] ?? (() => 404);
  response.writeHead(await Promise.resolve(work(body, request.headers)).catch(() => 502)).end();
}).listen(Number(BRIDGE_PORT), "127.0.0.1", () => console.log("ready"));
