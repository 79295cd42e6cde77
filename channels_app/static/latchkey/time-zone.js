// The time zone of the browser becomes the person's while the gateway knows none.

/** Send it if the page asks for it; whether it was stored. `call`: as in api.js. */
export async function sendTimeZone(call, { wanted = document.body.dataset.wantsTimeZone, zone = zoneHere() } = {}) {
  if (!wanted || !zone) return false;
  try {
    const { stored } = await call("/chat/time-zone", { time_zone: zone });
    return stored;
  } catch {
    return false; // a name that the gateway does not know: the person can set it on the page
  }
}

function zoneHere() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
}
