// How long after a move of the step's slider the step is on the screen (goal UX-5), of a built page:
// steps that the page holds itself, and steps that it asks of the hub's history.
//   node scripts/measure_scrub.mjs [STEPS]         with synthetic records
//   TT_PAGE_URL='http://127.0.0.1:8765/#token=…' node scripts/measure_scrub.mjs
// A real run must have done so many steps, and record them.
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';
import { Browser, Page, sleep } from './browser.mjs';

const kMoves = 200;
const kWindow = 32;
const steps = Number(process.argv[2] ?? 1000);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

async function syntheticHub() {
  const { module } = await runnerImport(here('../e2e/synthetic/hub.ts'), { configFile: false });
  const hub = new module.SyntheticHub({ dist: here('../dist'), firstStep: 2 * steps });
  const compressor = { kind: 'tile', tiles: 16 };
  hub.plan = { number: 1, entries: [{ point: 'HiddenStates', layers: '1-4', compressor }] };
  await hub.start();
  return hub;
}

/** Sends so many further steps, no faster than the page takes them. */
async function fill(hub) {
  const [first, taken] = [hub.step, hub.acknowledged];
  while (hub.step - first < steps) {
    if (hub.step - first - (hub.acknowledged - taken) < kWindow) hub.advance();
    await sleep(0);
  }
}

/** In the page: moves the slider to each step, and waits for the frame after the one that has it. */
async function scrub(targets) {
  const slider = document.querySelector('[aria-label^="Shown step, of the steps in"]');
  const frame = () => new Promise(requestAnimationFrame);
  const isShown = (step) => {
    const { app } = window.__tt;
    return app.view.step === step && app.frame?.step === step;
  };
  const times = [];
  for (const step of targets) {
    await frame();
    const begin = performance.now();
    slider.value = String(step);
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    while (!isShown(step) && performance.now() - begin < 10_000) await frame();
    // A map paints in the frame after the one that it came with.
    await frame();
    times.push(performance.now() - begin);
  }
  return times;
}

async function measure(page, name, first, last) {
  const targets = Array.from(
    { length: kMoves },
    (_, i) => first + ((i * 7919) % Math.max(1, last - first)),
  );
  const times = await page.evaluate(`(${scrub})(${JSON.stringify(targets)})`);
  times.sort((a, b) => a - b);
  const at = (share) => times[Math.floor(share * (kMoves - 1))].toFixed(0);
  console.log(
    `${name}, steps ${first} to ${last}: ${at(0.5)} ms (median), ${at(0.95)} ms (p95), ` +
      `${at(1)} ms (worst) of ${kMoves} moves`,
  );
}

const hub = process.env.TT_PAGE_URL === undefined ? await syntheticHub() : undefined;
const browser = new Browser();
await browser.launch();
const page = new Page(browser);
await page.open(hub?.url ?? process.env.TT_PAGE_URL);
await page.until(`document.querySelector('[data-testid="tile-map"]') !== null`);
if (hub !== undefined) {
  await fill(hub);
  await page.until(`window.__tt.app.frame?.step === ${hub.step}`);
  await measure(page, 'kept in the page', hub.step - steps, hub.step);
}
const newest = await page.evaluate('window.__tt.app.newestStep');
const kept = await page.evaluate('window.__tt.app.history?.first ?? 0');
const end = hub === undefined ? newest : newest - steps;
await measure(page, "from the hub's history", Math.max(kept, end - steps), end - 1);
console.log(`the machine's load: ${loadavg()[0].toFixed(1)}`);
await page.close();
await browser.close();
await hub?.stop();
