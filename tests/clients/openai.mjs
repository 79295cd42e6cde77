// The official client: create, stream, the .stream() helper, tools, usage, errors, models.
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: `${process.env.GATEWAY}/v1`,
  apiKey: process.env.KEY,
  maxRetries: 0,
});
const model = "default";
const say = (content) => [{ role: "user", content }];
const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      parameters: { type: "object", properties: { city: { type: "string" } } },
    },
  },
];
const found = {};

const created = await client.chat.completions.create({ model, messages: say("everything") });
found.created = created.choices[0].message;
found.usage = created.usage;

found.streamed = "";
const stream = await client.chat.completions.create({
  model,
  messages: say("everything"),
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  found.streamed += chunk.choices[0]?.delta.content ?? "";
  if (chunk.usage) found.streamed_usage = chunk.usage;
}

const helper = client.chat.completions.stream({ model, messages: say("everything") });
found.helped = (await helper.finalChatCompletion()).choices[0];

const asking = client.chat.completions.stream({ model, messages: say("weather?"), tools });
const called = (await asking.finalChatCompletion()).choices[0];
found.called = called;
const after = await client.chat.completions.create({
  model,
  tools,
  messages: [
    ...say("weather?"),
    called.message,
    { role: "tool", tool_call_id: called.message.tool_calls[0].id, content: "sunny" },
  ],
});
found.after_tool = after.choices[0].message.content;

const attempt = async (action) => {
  try {
    await action();
    return null;
  } catch (error) {
    return { name: error.constructor.name, status: error.status, code: error.code, message: error.message };
  }
};
found.unknown_model = await attempt(() =>
  client.chat.completions.create({ model: "gpt-9", messages: say("x") }),
);
found.broken = await attempt(() =>
  client.chat.completions.create({ model, messages: say("break") }),
);
found.broken_stream = await attempt(async () => {
  const broken = await client.chat.completions.create({ model, messages: say("break"), stream: true });
  for await (const _ of broken);
});
found.models = (await client.models.list()).data.map((each) => each.id);
console.log(JSON.stringify(found));
