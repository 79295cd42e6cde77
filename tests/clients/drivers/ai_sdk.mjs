// The AI SDK: its model for text, tools and errors, and the transport of useChat for streams.
import { createOpenAI } from "@ai-sdk/openai";
import { DefaultChatTransport, generateText, readUIMessageStream, stepCountIs, tool } from "ai";
import { z } from "zod";
import * as common from "./common.mjs";

const model = (apiKey = common.KEY, name = "default") =>
  createOpenAI({ baseURL: `${common.GATEWAY}/v1`, apiKey }).chat(name);
const ask = async (prompt, key, name) =>
  (await generateText({ model: model(key, name), prompt, maxRetries: 0 })).text;
const transport = (base, key = common.KEY) =>
  new DefaultChatTransport({ api: `${base}/ui/chat`, headers: { Authorization: `Bearer ${key}` } });
const chat = (base, id, text, abortSignal) =>
  transport(base).sendMessages({
    trigger: "submit-message",
    chatId: `${common.NAME}-${id}`,
    messageId: undefined,
    messages: [{ id: "u1", role: "user", parts: [{ type: "text", text }] }],
    abortSignal,
  });

async function read(stream, onMessage = () => {}) {
  let last = "";
  for await (const message of readUIMessageStream({ stream })) {
    last = message.parts.filter((part) => part.type === "text").map((part) => part.text).join("");
    onMessage(last);
  }
  return last;
}

await common.main({
  first: () => ask(common.HELLO),
  stream: async () => {
    const states = [];
    await read(await chat(common.GATEWAY, "stream", common.COUNT), (text) => states.push(text));
    return states.map((text, at) => text.slice(at ? states[at - 1].length : 0)).filter(Boolean);
  },
  tool: async () => {
    const inputSchema = z.object({ city: z.string() });
    const get_weather = tool({ inputSchema, execute: common.weather });
    const asked = { model: model(), prompt: common.WEATHER, tools: { get_weather } };
    return (await generateText({ ...asked, stopWhen: stepCountIs(3) })).text;
  },
  image: async () => {
    const content = [
      { type: "text", text: common.PICTURE },
      { type: "file", mediaType: "image/png", data: common.PIXEL.split(",")[1] },
    ];
    return (await generateText({ model: model(), messages: [{ role: "user", content }] })).text;
  },
  remember: async () => {
    const said = await ask(common.MY_NAME);
    const messages = [
      { role: "user", content: common.MY_NAME },
      { role: "assistant", content: said },
      { role: "user", content: common.WHAT_NAME },
    ];
    return (await generateText({ model: model(), messages })).text;
  },
  stop: async () => {
    const stream = await chat(common.GATEWAY, "stop", common.HANG);
    const reader = stream.getReader();
    await reader.read();
    await reader.cancel();
    const headers = { Authorization: `Bearer ${common.KEY}` };
    const address = `${common.GATEWAY}/ui/chat/${common.NAME}-stop/stop`;
    return (await fetch(address, { method: "POST", headers })).json();
  },
  cut: async () => {
    try {
      await read(await chat(common.CUT, "cut", common.COUNT));
    } catch {
      // The line is cut.
    }
    const stream = await transport(common.CUT).reconnectToStream({ chatId: `${common.NAME}-cut` });
    return { again: await read(stream) };
  },
  revoked: () => ask(common.HELLO, common.REVOKED),
  budget: () => ask(common.HELLO, common.POOR),
  down: () => ask(common.HELLO, common.KEY, common.DOWN),
});
