// An MCP client over streamable HTTP: results, files and questions to the person in their chat.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as common from "./common.mjs";

const ANSWER = "Hello from the gateway.";
const headers = (key) => ({ Authorization: `Bearer ${key}` });

async function api(path, body) {
  const given = { ...headers(common.KEY), "Content-Type": "application/json" };
  const request = body && { method: "POST", body: JSON.stringify(body) };
  const answer = await fetch(common.GATEWAY + path, { ...request, headers: given });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

const session = async () => (await api("/api/agent-sessions", { channel: "web" })).id;
const reply = (id, text) => api("/inbound", { text, session_id: id });

async function connected(id, key = common.KEY, base = common.GATEWAY) {
  const client = new Client({ name: common.NAME, version: "1" });
  const requestInit = { headers: { ...headers(key), "X-Session-Id": id } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit }));
  return client;
}

async function call(client, name, given, options) {
  const { structuredContent: found } = await client.callTool({ name, arguments: given }, undefined, options);
  if (found.status !== "success") throw new Error(`${found.status}: ${found.message}`);
  return found;
}

/** Begin to wait for the person; `begun` is settled when the gateway says that it waits. */
function waiting(client, options = {}) {
  let told;
  const begun = new Promise((resolve) => void (told = resolve));
  const said = call(client, "wait_for_reply", { timeout_seconds: 60 }, { onprogress: told, ...options });
  return { begun, text: said.then((found) => found.text) };
}

await common.main({
  first: async () => {
    const id = await session();
    await call(await connected(id), "send_result", { content: ANSWER });
    return (await api(`/api/sessions/${id}/messages`)).results[0].text;
  },
  image: async () => {
    const content = common.PIXEL.split(",")[1];
    const client = await connected(await session());
    await call(client, "send_file", { name: "mcp.png", content_base64: content });
    const { id } = (await api("/api/files")).results.find((file) => file.name === "mcp.png");
    const stored = await fetch(`${common.GATEWAY}/files/${id}`, { headers: headers(common.KEY) });
    const bytes = Buffer.from(await stored.arrayBuffer());
    return bytes.equals(Buffer.from(content, "base64")) ? "One pixel." : bytes.toString();
  },
  remember: async () => {
    const id = await session();
    const client = await connected(id);
    await call(client, "send_result", { content: common.WHAT_NAME });
    const { begun, text } = waiting(client);
    await begun;
    await reply(id, "I know your name.");
    return text;
  },
  stop: async () => {
    const id = await session();
    const client = await connected(id);
    const stopping = new AbortController();
    const { begun, text } = waiting(client, { signal: stopping.signal });
    await begun;
    stopping.abort();
    await text.catch(() => {});
    await client.close();
    await reply(id, "Still here.");
    const next = await waiting(await connected(id)).text;
    if (next !== "Still here.") throw new Error(next);
    return { stopped: true };
  },
  cut: async () => {
    const id = await session();
    const client = await connected(id, common.KEY, common.CUT);
    const isCut = new Promise((resolve) => void (client.onerror = resolve));
    waiting(client).text.catch(() => {});
    await isCut;
    const again = waiting(await connected(id, common.KEY, common.CUT));
    await again.begun;
    await reply(id, "one two three four five six seven eight");
    return { again: await again.text };
  },
  revoked: () => connected("none", common.REVOKED),
});
process.exit(0); // the call that was cut off is still open
