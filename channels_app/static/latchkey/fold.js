// For clients of the gateway: the web chat merges frame by frame.

import { applyDelta } from "./merge.js";

/** The messages a sequence of events adds up to, in the order of their first event. */
export function fold(events) {
  const messages = new Map();
  events.forEach((event, position) => {
    const key = event.message_id || position;
    messages.set(key, applyDelta(messages.get(key), event));
  });
  return [...messages.values()];
}
