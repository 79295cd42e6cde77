// Answers each line of JSON (a list of event sequences) with one line: the messages that each adds up to, in
// the order of their first event.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { applyDelta } = await import(pathToFileURL(process.argv[2]).href);

function fold(events) {
  const messages = new Map();
  events.forEach((event, position) => {
    const key = event.message_id || position;
    messages.set(key, applyDelta(messages.get(key), event));
  });
  return [...messages.values()];
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(JSON.parse(line).map(fold)) + "\n");
}
