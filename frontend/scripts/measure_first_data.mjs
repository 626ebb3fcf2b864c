// How long after the load the first maps are on the screen (goal UX-1), of a built page:
//   node scripts/measure_first_data.mjs            with synthetic records
//   TT_PAGE_URL='http://127.0.0.1:8765/#token=…' node scripts/measure_first_data.mjs
import { chromium } from '@playwright/test';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const kLoads = 20;
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

async function syntheticHub() {
  const { module } = await runnerImport(here('../e2e/synthetic/hub.ts'), { configFile: false });
  const hub = new module.SyntheticHub({ dist: here('../dist') });
  await hub.start();
  return hub;
}

/** Milliseconds from the navigation to the first frame that holds the maps, in a fresh browser. */
async function measure(browser, url) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  const page = await context.newPage();
  await page.goto(url);
  const drawn = await page.evaluate(async () => {
    while (document.querySelector('[data-testid="tile-map"]') === null) {
      await new Promise(requestAnimationFrame);
    }
    // A map paints in the frame after the one that it came with.
    for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
    return performance.now();
  });
  await context.close();
  return drawn;
}

const hub = process.env.TT_PAGE_URL === undefined ? await syntheticHub() : undefined;
const browser = await chromium.launch({
  executablePath: process.env.TT_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
});
const times = [];
for (let i = 0; i < kLoads; i++) {
  times.push(await measure(browser, hub?.url ?? process.env.TT_PAGE_URL));
}
times.sort((a, b) => a - b);
const at = (share) => times[Math.floor(share * (kLoads - 1))].toFixed(0);
console.log(`first data after ${at(0.5)} ms (median), ${at(0.95)} ms (p95) of ${kLoads} loads`);
console.log(`the machine's load: ${loadavg()[0].toFixed(1)}`);
await browser.close();
await hub?.stop();
