// What useChat is made of: the default transport and the reader of UI message streams.
import { DefaultChatTransport, readUIMessageStream } from "ai";

const headers = { Authorization: `Bearer ${process.env.KEY}` };
const transport = new DefaultChatTransport({ api: `${process.env.GATEWAY}/ui/chat`, headers });
const user = (text) => ({ id: "u1", role: "user", parts: [{ type: "text", text }] });
const found = {};

async function read(stream) {
  const errors = [];
  let last = null;
  const onError = (error) => errors.push(String(error?.message ?? error));
  for await (const message of readUIMessageStream({ stream, onError })) last = message;
  return { message: last, errors };
}

const send = (chatId, messages, body) =>
  transport.sendMessages({
    trigger: "submit-message",
    chatId,
    messageId: undefined,
    messages,
    abortSignal: undefined,
    body,
  });

found.everything = await read(await send("a", [user("everything")]));
found.broken = await read(await send("b", [user("break")]));

const tools = [{ type: "function", function: { name: "get_weather", parameters: {} } }];
found.called = await read(await send("c", [user("weather?")], { tools }));

found.idle = await transport.reconnectToStream({ chatId: "nobody" });
const left = await send("d", [user("slow")]);
await left.cancel();
found.resumed = await read(await transport.reconnectToStream({ chatId: "d" }));
console.log(JSON.stringify(found));
