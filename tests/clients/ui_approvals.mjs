// What useChat is made of, with answers that are sent by themselves: questions of tools.
import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses as sendAutomaticallyWhen,
} from "ai";

const headers = { Authorization: `Bearer ${process.env.KEY}` };
const transport = new DefaultChatTransport({ api: `${process.env.GATEWAY}/ui/chat`, headers });
const errors = [];

class Chat extends AbstractChat {
  constructor(id) {
    const state = {
      status: "ready",
      error: undefined,
      messages: [],
      pushMessage: (message) => void state.messages.push(message),
      popMessage: () => void state.messages.pop(),
      replaceMessage: (index, message) => void (state.messages[index] = message),
      snapshot: (value) => structuredClone(value),
    };
    const onError = (error) => errors.push(String(error.message));
    super({ id, state, transport, sendAutomaticallyWhen, onError });
  }
}

const toolOf = (chat) => chat.lastMessage.parts.find((part) => part.type === "dynamic-tool");
const textOf = (chat) =>
  chat.lastMessage.parts.filter((part) => part.type === "text").map((part) => part.text);

async function settled(chat, check) {
  for (let left = 600; left && !(chat.status === "ready" && check()); left -= 1)
    await new Promise((done) => setTimeout(done, 100));
}

async function answered(id, approved) {
  const chat = new Chat(id);
  await chat.sendMessage({ text: "diary" });
  const asked = structuredClone(toolOf(chat));
  await chat.addToolApprovalResponse({ id: asked.approval.id, approved });
  await settled(chat, () => toolOf(chat).state.startsWith("output"));
  const count = chat.messages.length;
  const tools = chat.lastMessage.parts.filter((part) => part.type === "dynamic-tool");
  await chat.sendMessage({ text: "thanks" });
  return { asked, count, tools, text: chat.messages.at(-3).parts.length, last: textOf(chat) };
}

const found = { errors };
found.allowed = await answered("ui-yes", true);
found.denied = await answered("ui-no", false);

const waiting = new Chat("ui-letter");
await waiting.sendMessage({ text: "letter" });
found.waiting = waiting.lastMessage.parts.map((part) => part.type);
found.data = waiting.lastMessage.parts.find((part) => part.type === "data-tool-approval").data;
found.metadata = Object.keys(waiting.lastMessage.metadata);

const stopped = new Chat("ui-stop");
const running = stopped.sendMessage({ text: "hang" });
while (!(stopped.lastMessage?.role === "assistant" && textOf(stopped).length))
  await new Promise((done) => setTimeout(done, 50));
await fetch(`${process.env.GATEWAY}/ui/chat/ui-stop/stop`, { method: "POST", headers });
await running;
found.stopped = { status: stopped.status, text: textOf(stopped) };
console.log(JSON.stringify(found));
