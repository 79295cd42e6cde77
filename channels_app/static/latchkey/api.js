// Calls to the gateway's own views: JSON in, JSON out, with the CSRF token of the page.

import { filled, gettext } from "./texts.js";

// On a network that drops what it takes, a request would wait for minutes. A long answer may take its time.
const PATIENCE = 30_000;

class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const posts = new Map(); // the last to each address

/** The JSON answer of a GET, or with a body of a POST, after those before to its address. Leaves for sign-in on 401. */
export function call(path, body) {
  const answer = Promise.allSettled([body && posts.get(path)]).then(() => ask(path, body));
  if (body) posts.set(path, answer);
  return answer;
}

async function ask(path, body) {
  const patience = new AbortController();
  const options = { headers: { Accept: "application/json" }, signal: patience.signal };
  if (body) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
    options.headers["X-CSRFToken"] = csrfToken();
  }
  const timer = setTimeout(() => patience.abort(), PATIENCE);
  const response = await fetch(path, options).catch(() => {
    throw new ApiError(0, gettext("The gateway cannot be reached. Try again in a moment."));
  });
  if (!body) clearTimeout(timer);
  if (response.status === 401) signIn();
  const answer = await response.json().catch(() => null);
  if (!response.ok || answer === null) throw new ApiError(response.status, answer?.error ?? refused(response.status));
  return answer;
}

// Not one of our own answers: a form token of another session, or a proxy in between.
function refused(status) {
  return filled(gettext("The gateway answered with HTTP {status}. Reload the page and try again."), { status });
}

/** Go to the sign-in page and come back here afterwards. */
export function signIn() {
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname)}`);
}

function csrfToken() {
  return document.querySelector("input[name=csrfmiddlewaretoken]")?.value ?? "";
}

/** Send a person's verdict on a source of an answer. */
export function rateSource({ runId, messageId, sourceId, verdict }) {
  return call("/chat/feedback", { run_id: runId, message_id: messageId, source_id: sourceId, verdict });
}
