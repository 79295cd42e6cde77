// Lighthouse on one page, as a telephone: node lighthouse.mjs <browser> <address> <cookies as JSON>.
import lighthouse from "lighthouse";
import puppeteer from "puppeteer-core"; // Lighthouse's own

const [browser, address, cookies] = process.argv.slice(2);
const flags = {
  logLevel: "error",
  disableStorageReset: true,
  onlyCategories: ["performance", "accessibility", "best-practices"],
};

// What Lighthouse says, from a fresh browser: one that has been at the page has a cache.
async function look() {
  const chromium = await puppeteer.launch({ executablePath: browser, args: ["--no-sandbox"] });
  try {
    await chromium.setCookie(...JSON.parse(cookies));
    const page = await chromium.newPage();
    const { lhr } = await lighthouse(address, flags, undefined, page);
    if (lhr.runtimeError) return lhr;
    lhr.blocking = await page.evaluate(() => {
      const files = performance.getEntriesByType("resource");
      return files.filter((file) => file.renderBlockingStatus === "blocking").length;
    });
    return lhr;
  } finally {
    await chromium.close();
  }
}

let lhr;
for (let attempt = 0; attempt < 3; attempt++) {
  lhr = await look();
  if (!lhr.runtimeError) break; // beside other work the browser may be too slow for it
}
if (lhr.runtimeError) throw new Error(JSON.stringify(lhr.runtimeError));
const { finalDisplayedUrl: shown, categories, audits, blocking } = lhr;
console.log(JSON.stringify({ address: shown, categories, audits, blocking }));
