// Lighthouse on one page, as a telephone: node lighthouse.mjs <browser> <address> <cookies as JSON>.
import lighthouse from "lighthouse";
import puppeteer from "puppeteer-core"; // Lighthouse's own

const [browser, address, cookies] = process.argv.slice(2);
const chromium = await puppeteer.launch({ executablePath: browser, args: ["--no-sandbox"] });
try {
  await chromium.setCookie(...JSON.parse(cookies));
  const flags = {
    logLevel: "error",
    disableStorageReset: true,
    onlyCategories: ["performance", "accessibility", "best-practices"],
  };
  const page = await chromium.newPage();
  let lhr;
  for (let attempt = 0; attempt < 3; attempt++) {
    ({ lhr } = await lighthouse(address, flags, undefined, page));
    if (!lhr.runtimeError) break; // beside other work the browser may be too slow for it
  }
  if (lhr.runtimeError) throw new Error(JSON.stringify(lhr.runtimeError));
  const blocking = await page.evaluate(() => {
    const files = performance.getEntriesByType("resource");
    return files.filter((file) => file.renderBlockingStatus === "blocking").length;
  });
  const { finalDisplayedUrl: shown, categories, audits } = lhr;
  console.log(JSON.stringify({ address: shown, categories, audits, blocking }));
} finally {
  await chromium.close();
}
