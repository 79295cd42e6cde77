// Tells the gateway whether this page can be seen: while one can, notifications stay away.

const BEAT = 5000;

/**
 * Send `{type: "visible", visible}` with `send` at each change, and again while the page is visible: one
 * that lost its network, or that its phone has stopped, cannot say that it is not. Call the result
 * when connected.
 */
export function tellVisibility(send) {
  const isVisible = () => document.visibilityState === "visible";
  const tell = () => send({ type: "visible", visible: isVisible() });
  document.addEventListener("visibilitychange", tell);
  setInterval(() => isVisible() && tell(), BEAT);
  return tell;
}
