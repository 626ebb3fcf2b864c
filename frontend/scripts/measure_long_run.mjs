// Measures the main thread of the page while a run with many past steps gets new ones: a synthetic hub
// sends only their scalars, and the script changes tabs.
//   vite build && node scripts/measure_long_run.mjs [STEPS [STEPS_A_SECOND [DIST]]]
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';
import { Browser, Page, sleep } from './browser.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const load = async (path) => (await runnerImport(here(path), { configFile: false })).module;
const { SyntheticHub } = await load('../e2e/synthetic/hub.ts');
const { stepFacts } = await load('../e2e/synthetic/data.ts');
const steps = Number(process.argv[2] ?? 100_000);
const rate = Number(process.argv[3] ?? 20);
const dist = process.argv[4] ?? here('../dist');
const kTurns = 12;

const browser = new Browser();
await browser.launch();
const hub = new SyntheticHub({ dist, firstStep: steps });
await hub.start();
const page = new Page(browser);
await page.open(`${hub.url}?tab=overview`);
await page.until(`document.querySelectorAll('.uplot').length === 4`);
await sleep(5000); // the past arrives
await page.evaluate(`(() => {
  window.busy = [];
  new PerformanceObserver((list) => window.busy.push(...list.getEntries().map(({ duration }) => duration)))
    .observe({ type: 'longtask' });
})()`);
const timer = setInterval(() => {
  hub.step += 1;
  hub.broadcast('step', stepFacts(hub.step));
}, 1000 / rate);
const begin = performance.now();
const clicks = [];
for (let turn = 0; turn < kTurns; turn++) {
  await sleep(1000);
  const tab = turn % 2 === 0 ? 'tensors' : 'overview';
  const pressed = performance.now();
  await page.evaluate(
    `new Promise((resolve) => {
      document.querySelector('[data-testid="tab-${tab}"]').click();
      requestAnimationFrame(() => requestAnimationFrame(resolve));
    })`,
  );
  clicks.push(performance.now() - pressed);
}
clearInterval(timer);
const seconds = (performance.now() - begin) / 1000;
const busy = await page.evaluate('window.busy');
const sum = busy.reduce((total, one) => total + one, 0) / 1000;
clicks.sort((a, b) => a - b);
console.log(
  `${steps} steps, ${rate} a second: a click until the frame after the next ${clicks[kTurns / 2].toFixed(0)} ms (median), ` +
    `${clicks.at(-1).toFixed(0)} ms (most); long tasks ${((100 * sum) / seconds).toFixed(0)} % of the time, ` +
    `longest ${Math.max(0, ...busy).toFixed(0)} ms`,
);
await hub.stop();
await browser.close();
