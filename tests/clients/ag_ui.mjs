// HttpAgent of @ag-ui/client: its verifier checks every stream; what it keeps, as JSON.
import { HttpAgent } from "@ag-ui/client";

const { GATEWAY, KEY } = process.env;
const headers = { Authorization: `Bearer ${KEY}` };
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
const found = { warnings };

function agentOf(threadId) {
  const events = [];
  const errors = [];
  const agent = new HttpAgent({ url: `${GATEWAY}/ag-ui`, headers, threadId });
  agent.subscribe({
    onEvent: ({ event }) => void events.push(event),
    onRunErrorEvent: ({ event }) => void errors.push(event.message),
  });
  return { agent, events, errors };
}

async function said(one, text, parameters) {
  one.agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  await one.agent.runAgent(parameters);
  return one.agent.messages.at(-1);
}

const every = agentOf("js-every");
every.agent.setState({ page: 1 });
await said(every, "everything");
found.roles = [...new Set(every.agent.messages.map((each) => each.role))];
found.kinds = [...new Set(every.events.map((each) => each.type))];
found.state = every.agent.state;
found.again = (await said(every, "slow")).content;

const tools = [{ name: "get_weather", description: "The weather.", parameters: { type: "object" } }];
const weather = agentOf("js-weather");
await said(weather, "weather?", { tools });
const call = weather.agent.messages.flatMap((each) => each.toolCalls ?? [])[0];
found.call = call.function;
weather.agent.addMessage({ id: "r1", role: "tool", toolCallId: call.id, content: "sunny" });
await weather.agent.runAgent({ tools });
found.after_tool = weather.agent.messages.at(-1).content;

const broken = agentOf("js-broken");
await said(broken, "break").catch(() => {});
found.broken = broken.errors;

const asks = agentOf("js-asks");
await said(asks, "diary");
found.pending = asks.agent.pendingInterrupts.map((each) => each.reason);
found.blocked = await said(asks, "hello?").catch((error) => String(error.message));
asks.agent.messages = asks.agent.messages.slice(0, -1);
const resume = asks.agent.pendingInterrupts.map((each) => ({
  interruptId: each.id,
  status: "resolved",
  payload: { approved: true },
}));
await asks.agent.runAgent({ resume });
found.resumed = asks.agent.messages.map((each) => [each.role, each.content ?? each.toolCalls]);
found.pending_after = asks.agent.pendingInterrupts;
await said(asks, "thanks");
found.last = asks.agent.messages.at(-1).content;

class Reconnecting extends HttpAgent {
  requestInit() {
    return { headers: this.headers };
  }
}
const fresh = new Reconnecting({ url: `${GATEWAY}/ag-ui/js-asks/stream`, headers, threadId: "js-asks" });
await fresh.runAgent();
found.fresh = fresh.messages.map((each) => each.role);
console.log(JSON.stringify(found));
