// Answers each line of JSON (a list of event sequences) with one line: the messages that each adds up to, in
// the order of their first event.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { fold } = await import(pathToFileURL(process.argv[2]).href);

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(JSON.parse(line).map(fold)) + "\n");
}
