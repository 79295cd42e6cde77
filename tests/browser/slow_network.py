"""A slow network for pages, by ``BROWSER_SLOW``, the seed of its delays (``make soak``).

A request and its answer come late, and may be overtaken by others; frames of a socket come late, in
order. The page does it itself: routes of a test, which hold what they want, are not concerned.
"""

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext

SCRIPT = """(() => {
  let state = SEED;
  const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
  const later = setTimeout.bind(window); // also where a test sets the clock
  const late = (most) => new Promise((go) => later(go, most * random()));
  const quickly = window.fetch;
  window.fetch = async (...given) => {
    await late(600);
    const answer = await quickly(...given);
    await late(600);
    return answer;
  };
  window.WebSocket = class extends WebSocket {
    #came = Promise.resolve();
    #sent = Promise.resolve();
    #on = {};
    constructor(...given) {
      super(...given);
      for (const name of ["open", "message", "close"]) {
        super.addEventListener(name, (event) => {
          this.#came = this.#came.then(() => late(80)).then(() => this.#on[name]?.(event));
        });
      }
    }
    set onopen(call) { this.#on.open = call; }
    set onmessage(call) { this.#on.message = call; }
    set onclose(call) { this.#on.close = call; }
    send(data) {
      const send = () => this.readyState === 1 && super.send(data);
      this.#sent = this.#sent.then(() => late(300)).then(send);
    }
  };
})();"""


@pytest.fixture(autouse=True, scope="session")
def slow_network() -> Iterator[None]:
    """Slow down the pages of each browser, if that is wanted."""
    seed = int(os.environ.get("BROWSER_SLOW") or 0)
    if not seed:
        yield
        return
    new_context = Browser.new_context
    seeds = itertools.count(seed)

    def slow_context(browser: Browser, **options: Any) -> BrowserContext:
        context = new_context(browser, **options)
        context.add_init_script(SCRIPT.replace("SEED", str(next(seeds) * 7919)))
        return context

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Browser, "new_context", slow_context)
        yield
