// The buttons under a reminder. A press is told to the gateway; its answer takes their place.

import { call } from "./api.js";
import { el, icon } from "./dom.js";
import { gettext } from "./texts.js";

/** The buttons of `reminder` ({buttons: [[choice, label], …], said}), or what a press has said. */
export function reminderButtons(reminder, runId) {
  const place = el("div.reminder", {});
  if (reminder.said) show(place, reminder.said);
  else place.append(buttons(place, reminder.buttons, runId));
  return place;
}

function buttons(place, choices, runId) {
  const row = el("div.reminder-buttons", { role: "group", "aria-label": gettext("This reminder") });
  for (const [choice, label] of choices) {
    const attributes = { type: "button", "data-choice": choice };
    const button = el("button.button", attributes, label);
    button.addEventListener("click", () => press(place, row, { choice, runId }));
    row.append(button);
  }
  return row;
}

async function press(place, row, { choice, runId }) {
  for (const button of row.children) button.disabled = true;
  try {
    const { said } = await call(`/chat/reminders/${encodeURIComponent(runId)}`, { choice });
    show(place, said, { focus: true });
  } catch (error) {
    for (const button of row.children) button.disabled = false;
    place.querySelector("[role=alert]")?.remove();
    place.append(el("p.reminder-said", { role: "alert" }, error.message));
    row.querySelector(`[data-choice=${choice}]`).focus();
  }
}

/** The focus was on a button that goes: it goes to the line, which is then read out. */
function show(place, said, { focus = false } = {}) {
  const line = el("p.reminder-said", { tabindex: "-1" }, icon("check"), said);
  place.replaceChildren(line);
  if (focus) line.focus();
}
