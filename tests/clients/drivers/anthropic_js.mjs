// The official JavaScript client of Anthropic.
import Anthropic from "@anthropic-ai/sdk";
import * as common from "./common.mjs";

const client = (apiKey = common.KEY, baseURL = common.GATEWAY) =>
  new Anthropic({ baseURL, apiKey, maxRetries: 0 });
const user = (content) => ({ role: "user", content });
const body = (messages, more = {}) => ({ model: "default", max_tokens: 1000, messages, ...more });
const ask = (messages, more = {}, key = common.KEY) =>
  client(key).messages.create(body(messages, more));
const text = (answer) =>
  answer.content.map((block) => (block.type === "text" ? block.text : "")).join("");
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ name: "get_weather", input_schema: schema }];

async function read(stream) {
  const pieces = [];
  for await (const event of stream) {
    if (event.type === "content_block_delta") pieces.push(event.delta.text ?? "");
  }
  return pieces.filter(Boolean);
}

await common.main({
  first: async () => text(await ask([user(common.HELLO)])),
  stream: async () => read(client().messages.stream(body([user(common.COUNT)]))),
  tool: async () => {
    const asked = client().messages.stream(body([user(common.WEATHER)], { tools }));
    const first = await asked.finalMessage();
    const call = first.content.find((block) => block.type === "tool_use");
    const content = common.weather(call.input);
    const result = { type: "tool_result", tool_use_id: call.id, content };
    const said = { role: "assistant", content: first.content };
    return text(await ask([user(common.WEATHER), said, user([result])], { tools }));
  },
  image: async () => {
    const data = common.PIXEL.split(",")[1];
    const source = { type: "base64", media_type: "image/png", data };
    return text(await ask([user([{ type: "text", text: common.PICTURE }, { type: "image", source }])]));
  },
  remember: async () => {
    const { content } = await ask([user(common.MY_NAME)]);
    const turns = [user(common.MY_NAME), { role: "assistant", content }];
    return text(await ask([...turns, user(common.WHAT_NAME)]));
  },
  stop: async () => {
    const answer = ask([user(common.HANG)], { stream: true });
    const { data, response } = await answer.withResponse();
    for await (const _ of data) break;
    return { run: response.headers.get("request-id") };
  },
  cut: async () => {
    const runs = [];
    let pieces = [];
    for (let times = 0; times < 2; times += 1) {
      const headers = { "Idempotency-Key": "cut-js" };
      try {
        const asked = body([user(common.COUNT)], { stream: true });
        const answer = client(common.KEY, common.CUT).messages.create(asked, { headers });
        const { data, response } = await answer.withResponse();
        runs.push(response.headers.get("request-id"));
        pieces = [];
        pieces = await read(data);
      } catch {
        continue;
      }
    }
    return { runs, text: pieces.join("") };
  },
  revoked: async () => text(await ask([user(common.HELLO)], {}, common.REVOKED)),
  budget: async () => text(await ask([user(common.HELLO)], {}, common.POOR)),
  down: async () => text(await ask([user(common.HELLO)], { model: common.DOWN })),
});
