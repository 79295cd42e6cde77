// Which addresses lead to this gateway.
import assert from "node:assert/strict";
import { test } from "node:test";

const { ownUrl } = await import(`${process.env.LATCHKEY_JS}/dom.js`);

test("an address under another name of the gateway leads to the one where the page was opened", () => {
  globalThis.location = { href: "http://localhost:8000/c/x", origin: "http://localhost:8000" };
  globalThis.document = { body: { dataset: { gateway: "http://127.0.0.1:8000" } } };
  const own = "http://localhost:8000/files/out?token=a.b.c";
  for (const address of [own, own.replace("localhost", "127.0.0.1"), "/files/out?token=a.b.c"]) assert.equal(ownUrl(address).href, own);
  assert.equal(ownUrl("http://127.0.0.1:8000//e.com/x").href, "http://localhost:8000//e.com/x");
  for (const address of ["http://127.0.0.1:8001/files/out", "https://127.0.0.1:8000/x", "https://e.com/", "data:,x"]) assert.equal(ownUrl(address), null);
});
