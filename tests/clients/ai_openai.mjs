// The AI SDK with its OpenAI provider, `chat` or `responses`: text, stream, tools, errors.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const provider = createOpenAI({
  baseURL: `${process.env.GATEWAY}/v1`,
  apiKey: process.env.KEY,
});
const model = provider[process.argv[2]]("default");
const found = {};

const whole = await generateText({ model, prompt: "everything", maxRetries: 0 });
found.text = whole.text;
found.usage = whole.usage;
found.finish = whole.finishReason;
found.sources = whole.sources.map((each) => each.url);

const errors = [];
const onError = ({ error }) => errors.push(String(error?.message ?? error));
const streamed = streamText({ model, prompt: "everything", maxRetries: 0, onError });
found.streamed = "";
for await (const piece of streamed.textStream) found.streamed += piece;
found.streamed_finish = await streamed.finishReason;

const tools = {
  get_weather: tool({
    description: "The weather of a city.",
    inputSchema: jsonSchema({ type: "object", properties: { city: { type: "string" } } }),
    execute: async ({ city }) => `sunny in ${city}`,
  }),
};
const asked = await generateText({
  model,
  tools,
  prompt: "weather?",
  stopWhen: stepCountIs(3),
  maxRetries: 0,
});
found.tool_text = asked.text;
found.tool_results = asked.steps.flatMap((step) => step.toolResults.map((each) => each.output));
found.errors_before = [...errors];

const broken = streamText({ model, prompt: "break", maxRetries: 0, onError });
for await (const _ of broken.fullStream);
found.errors = errors;
console.log(JSON.stringify(found));
