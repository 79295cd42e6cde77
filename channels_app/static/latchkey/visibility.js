// Tells the gateway whether this page can be seen: while one can, notifications stay away.

/** Send `{type: "visible", visible}` with `send` at each change; call the result when connected. */
export function tellVisibility(send) {
  const tell = () => send({ type: "visible", visible: document.visibilityState === "visible" });
  document.addEventListener("visibilitychange", tell);
  return tell;
}
