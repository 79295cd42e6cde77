// AG-UI: HttpAgent, which keeps messages, checks every stream, and reconnects by a GET.
import { HttpAgent } from "@ag-ui/client";
import * as common from "./common.mjs";

// The client closes a reader whose line was cut, and leaves the failure of that to the process.
process.on("unhandledRejection", (error) => console.error(error.message));

class Reconnecting extends HttpAgent {
  requestInit() {
    return { headers: this.headers };
  }
}

const id = (name) => `${common.NAME}-${name}`;
const agentOf = (name, key = common.KEY, base = common.GATEWAY, Kind = HttpAgent, path = "") =>
  new Kind({
    url: `${base}/ag-ui${path}`,
    headers: { Authorization: `Bearer ${key}` },
    threadId: id(name),
  });

async function run(agent, parameters = {}, pieces = []) {
  let failed = "";
  await agent.runAgent(parameters, {
    onTextMessageContentEvent: ({ event }) => void pieces.push(event.delta),
    onRunErrorEvent: ({ event }) => void (failed = event.message),
  });
  if (failed) throw new Error(failed);
  return agent.messages.at(-1).content;
}

function say(agent, content, parameters, pieces) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  return run(agent, parameters, pieces);
}

await common.main({
  first: () => say(agentOf("first"), common.HELLO),
  stream: async () => {
    const pieces = [];
    await say(agentOf("stream"), common.COUNT, {}, pieces);
    return pieces;
  },
  tool: async () => {
    const parameters = { type: "object", properties: { city: { type: "string" } } };
    const tools = [{ name: "get_weather", description: "The weather.", parameters }];
    const agent = agentOf("tool");
    await say(agent, common.WEATHER, { tools });
    const [call] = agent.messages.at(-1).toolCalls;
    const content = common.weather(JSON.parse(call.function.arguments));
    agent.addMessage({ id: "result", role: "tool", toolCallId: call.id, content });
    return run(agent, { tools });
  },
  image: () => {
    const value = common.PIXEL.split(",")[1];
    return say(agentOf("image"), [
      { type: "text", text: common.PICTURE },
      { type: "image", source: { type: "data", value, mimeType: "image/png" } },
    ]);
  },
  remember: async () => {
    const agent = agentOf("remember");
    await say(agent, common.MY_NAME);
    return say(agent, common.WHAT_NAME);
  },
  stop: async () => {
    const agent = agentOf("stop");
    const headers = { Authorization: `Bearer ${common.KEY}` };
    const address = `${common.GATEWAY}/ag-ui/${id("stop")}/stop`;
    let stopped;
    agent.subscribe({
      onTextMessageStartEvent: () => void (stopped ??= fetch(address, { method: "POST", headers })),
    });
    await say(agent, common.HANG);
    return (await stopped).json();
  },
  cut: async () => {
    await say(agentOf("cut", common.KEY, common.CUT), common.COUNT).catch(() => {});
    const path = `/${id("cut")}/stream?runId=`;
    return { again: await run(agentOf("cut", common.KEY, common.CUT, Reconnecting, path)) };
  },
  revoked: () => say(agentOf("revoked", common.REVOKED), common.HELLO),
  budget: () => say(agentOf("budget", common.POOR), common.HELLO),
  down: () =>
    say(agentOf("down"), common.HELLO, { forwardedProps: { assistant: common.DOWN } }),
});
