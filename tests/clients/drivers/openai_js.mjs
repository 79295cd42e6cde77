// The official JavaScript client of OpenAI.
import OpenAI from "openai";
import * as common from "./common.mjs";

const client = (apiKey = common.KEY, base = common.GATEWAY) =>
  new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0 });
const user = (content) => ({ role: "user", content });
const ask = (messages, more = {}, key = common.KEY) =>
  client(key).chat.completions.create({ model: "default", messages, ...more });
const text = (answer) => answer.choices[0].message.content;
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];

async function read(stream) {
  const pieces = [];
  for await (const chunk of stream) pieces.push(chunk.choices[0]?.delta?.content ?? "");
  return pieces.filter(Boolean);
}

await common.main({
  first: async () => text(await ask([user(common.HELLO)])),
  stream: async () => read(await ask([user(common.COUNT)], { stream: true })),
  tool: async () => {
    const first = (await ask([user(common.WEATHER)], { tools })).choices[0].message;
    const [call] = first.tool_calls;
    const content = common.weather(JSON.parse(call.function.arguments));
    const result = { role: "tool", tool_call_id: call.id, content };
    return text(await ask([user(common.WEATHER), first, result], { tools }));
  },
  image: async () => {
    const picture = { type: "image_url", image_url: { url: common.PIXEL } };
    return text(await ask([user([{ type: "text", text: common.PICTURE }, picture])]));
  },
  remember: async () => {
    const said = text(await ask([user(common.MY_NAME)]));
    const turns = [user(common.MY_NAME), { role: "assistant", content: said }];
    return text(await ask([...turns, user(common.WHAT_NAME)]));
  },
  stop: async () => {
    const answer = ask([user(common.HANG)], { stream: true });
    const { data, response } = await answer.withResponse();
    for await (const _ of data) break;
    return { run: response.headers.get("x-request-id") };
  },
  cut: async () => {
    const runs = [];
    let pieces = [];
    for (let times = 0; times < 2; times += 1) {
      const body = { model: "default", messages: [user(common.COUNT)], stream: true };
      const headers = { "Idempotency-Key": "cut-js" };
      try {
        const answer = client(common.KEY, common.CUT).chat.completions.create(body, { headers });
        const { data, response } = await answer.withResponse();
        runs.push(response.headers.get("x-request-id"));
        pieces = [];
        pieces = await read(data);
      } catch {
        continue;
      }
    }
    return { runs, text: pieces.join(""), whole: 1 };
  },
  revoked: async () => text(await ask([user(common.HELLO)], {}, common.REVOKED)),
  budget: async () => text(await ask([user(common.HELLO)], {}, common.POOR)),
  down: async () => text(await ask([user(common.HELLO)], { model: common.DOWN })),
});
