// The official client at the Responses API: create, stream, .stream(), tools, background, errors.
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: `${process.env.GATEWAY}/v1`,
  apiKey: process.env.KEY,
  maxRetries: 0,
});
const model = "default";
const tools = [
  {
    type: "function",
    name: "get_weather",
    strict: false,
    parameters: { type: "object", properties: { city: { type: "string" } } },
  },
];
const found = {};

const created = await client.responses.create({ model, input: "everything" });
found.created = created.output_text;
found.kinds = created.output.map((item) => item.type);
found.annotations = created.output[1].content[0].annotations;
found.usage = created.usage;

found.streamed = "";
for await (const event of await client.responses.create({ model, input: "everything", stream: true }))
  if (event.type === "response.output_text.delta") found.streamed += event.delta;

const helper = client.responses.stream({ model, input: "everything" });
found.helped = (await helper.finalResponse()).output_text;

const called = await client.responses.stream({ model, input: "weather?", tools }).finalResponse();
found.called = called.output[0];
const after = await client.responses.create({
  model,
  tools,
  previous_response_id: called.id,
  input: [{ type: "function_call_output", call_id: called.output[0].call_id, output: "sunny" }],
});
found.after_tool = after.output_text;

const slow = await client.responses.create({ model, input: "slow", background: true });
const resumed = await client.responses.stream({ response_id: slow.id }).finalResponse();
found.background = resumed.output_text;
const hangs = await client.responses.create({ model, input: "hang", background: true });
found.cancelled = (await client.responses.cancel(hangs.id)).status;
await client.responses.delete(slow.id);
const items = await client.responses.inputItems.list(hangs.id);
found.items = items.data.map((item) => item.content[0].text);

const attempt = async (action) => {
  try {
    await action();
    return null;
  } catch (error) {
    return { name: error.constructor.name, status: error.status, code: error.code, message: error.message };
  }
};
found.deleted = await attempt(() => client.responses.retrieve(slow.id));
found.broken = await attempt(() => client.responses.create({ model, input: "break" }));
console.log(JSON.stringify(found));
