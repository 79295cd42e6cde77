// aimock as the provider, behind a proxy that chooses how each request fails, in turn.
//
// Prints its port. POST /plan {"<model>": ["", "429", …], …} sets the faults of a model, one for each
// request, from the beginning again after the last; GET /ledger returns what each request got.
// aimock does the faults; what it cannot, the proxy: garbage in the middle of a stream ("garbage"),
// an error with the caller's key in its body and headers ("echo"), in its status line and the address
// of a redirect ("echo-head"), on a web page ("echo-page") or in its stream ("echo-stream").
// /__aimock/… is aimock's own: its journal has a request's number as "x-request-id".

import http from "node:http";
import { LLMock } from "@copilotkit/aimock";

const QUESTION = /\bq[a-z]*\d+\b/;
const { WORDS = "24", CHUNK_MS = "10" } = process.env;
const MINUTES = 600_000;

// The answer is derived from the model and the question, so that a text can be compared.
function answerTo(model, question, words) {
  return Array.from({ length: words }, (_, number) => `${model}${number}${question}`).join(" ");
}

function textOf(message) {
  const { content } = message ?? {};
  return Array.isArray(content) ? content.map((part) => part.text ?? "").join(" ") : content ?? "";
}

function questionOf(request) {
  const asked = request.messages.filter((message) => message.role === "user").map(textOf);
  return QUESTION.exec(asked.at(-1) ?? "")?.[0] ?? "q0";
}

function answer(request) {
  const words = Math.min(Number(WORDS), request.max_tokens ?? Infinity);
  const prompt = request.messages.map(textOf).join(" ").split(/\s+/).length;
  return {
    content: answerTo(request.model, questionOf(request), words),
    usage: { prompt_tokens: prompt, completion_tokens: words },
  };
}

const mock = new LLMock({ port: 0, chunkSize: 8, latency: Number(CHUNK_MS), journalMaxEntries: 0 });
const refusal = (status, message, code) => ({ error: { message, type: code, code }, status, retryAfter: 2 });
const FAULTS = {
  429: [refusal(429, "Rate limit reached", "rate_limit_exceeded")],
  500: [refusal(500, "The server had an error", "server_error")],
  401: [refusal(401, "Incorrect API key provided", "invalid_api_key")],
  quota: [refusal(429, "You exceeded your current quota", "insufficient_quota")],
  cut: [answer, { truncateAfterChunks: 6 }],
  malformed: [answer, { chaos: { malformedRate: 1 } }],
  silence: [answer, { streamingProfile: { ttft: MINUTES } }],
  pause: [
    answer,
    { recordedTimings: { ttftMs: 0, interChunkDelaysMs: [5, 5, 5, MINUTES], totalDurationMs: MINUTES } },
  ],
};
for (const [context, [response, options]] of Object.entries(FAULTS)) {
  mock.on({ context }, response, options);
}
mock.on({}, answer);
const upstream = new URL(await mock.start());

let plan = {};
let open = 0;
const asked = {};
const ledger = [];

function nextFault(model) {
  const faults = plan[model] ?? [""];
  asked[model] = (asked[model] ?? -1) + 1;
  return faults[asked[model] % faults.length];
}

async function bodyOf(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces);
}

function reply(response, value, status = 200) {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(value));
}

// Errors that repeat the caller's key.
const ECHOES = {
  echo: (response, entry, words) => {
    response.setHeader("X-Your-Key", words);
    response.setHeader("Retry-After", words);
    response.setHeader("WWW-Authenticate", `Bearer error="${words}"`);
    reply(response, { error: { message: `Bad key ${words}`, type: words, code: words } }, (entry.status = 400));
  },
  "echo-head": (response, entry, words) => {
    response.writeHead((entry.status = 307), `No ${words}`, { Location: `/else?${encodeURI(words)}` });
    response.end();
  },
  "echo-page": (response, entry, words) => {
    response.writeHead((entry.status = 403), { "Content-Type": "text/html" });
    response.end(`<!doctype html><title>${words}</title><p>${words} is not known here.`);
  },
};

// Pass the answer on; note its usage, and that the caller has got all of it.
function passOn(from, to, entry, spoil) {
  to.writeHead(from.statusCode, from.headers);
  entry.status = from.statusCode;
  let text = "";
  let spoilt = false;
  from.on("data", (piece) => {
    text += piece;
    to.write(piece);
    entry.begun = true;
    if (spoil && !spoilt && text.split("\n\n").length > 6) {
      spoilt = true;
      to.write(spoil);
    }
  });
  from.on("aborted", () => to.destroy());
  from.on("error", () => to.destroy());
  from.on("end", () => {
    const usage = /"usage":(\{[^{}]*\})/.exec(text);
    entry.usage = usage && !spoil ? JSON.parse(usage[1]) : null;
    to.end(() => (entry.done = true));
  });
}

async function relay(request, response) {
  const body = await bodyOf(request);
  const isCall = request.method === "POST" && request.url.endsWith("/chat/completions");
  const headers = { ...request.headers };
  const entry = { at: Date.now(), begun: false, done: false, usage: null, status: 0, fault: "" };
  if (isCall) {
    const wanted = JSON.parse(body);
    const { model } = wanted;
    const number = ledger.push(entry);
    const key = (headers.authorization ?? "").replace("Bearer ", "");
    Object.assign(entry, { number, model, question: questionOf(wanted), fault: nextFault(model) });
    entry.key = key;
    entry.open = ++open;
    response.on("close", () => (open -= 1));
    headers["x-request-id"] = `r${number}`;
    if (entry.fault) headers["x-aimock-context"] = entry.fault;
    if (ECHOES[entry.fault]) return ECHOES[entry.fault](response, entry, `${key} for ${request.url}?key=${key}`);
    entry.spoil = {
      garbage: 'data: {"choices": [{"delta": \0\u00ff\n\n',
      "echo-stream": `data: ${JSON.stringify({ error: { message: `The key ${key} ran out` } })}\n\n`,
    }[entry.fault];
  }
  const { spoil } = entry;
  delete entry.spoil;
  const call = http.request({
    host: upstream.hostname,
    port: upstream.port,
    path: request.url,
    method: request.method,
    headers,
    agent: false,
  });
  call.on("response", (found) => passOn(found, response, entry, spoil));
  call.on("error", () => response.destroy());
  response.on("close", () => call.destroy());
  call.end(body);
}

async function serve(request, response) {
  if (request.url === "/ledger") return reply(response, ledger);
  if (request.url !== "/plan") return relay(request, response);
  plan = JSON.parse(await bodyOf(request));
  for (const model of Object.keys(asked)) delete asked[model];
  return reply(response, plan);
}

const server = http.createServer((request, response) => {
  serve(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
});
server.listen(Number(process.env.PORT ?? "0"), "127.0.0.1", () => console.log(server.address().port));
