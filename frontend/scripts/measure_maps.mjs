// Measures the speed of the maps in a browser (goals UX-2 and UX-10), with a synthetic producer and
// no trainer beside it:
//   vite build && node scripts/measure_maps.mjs [SECONDS]
import { chromium } from '@playwright/test';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const seconds = Number(process.argv[2] ?? 60);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const load = async (path) => (await runnerImport(here(path), { configFile: false })).module;
const { FakeHub } = await load('../e2e/fake_hub.ts');
const { encodeRecord, tableCrc32c } = await load('../e2e/fake_record.ts');
const { kRunId } = await load('../e2e/fake_data.ts');
const kWindow = 4;

/** Messages of u8 attention records [1, heads, size, size]; of a few pictures, step by step. */
class Producer {
  constructor(heads, size) {
    this.pictures = Array.from({ length: 4 }, (_, i) => pictureOf(heads, size, i));
  }

  message(step) {
    const message = Buffer.from(this.pictures[step % this.pictures.length]);
    message.writeBigUInt64LE(BigInt(step), 16);
    message.writeBigUInt64LE(BigInt(step), 24);
    message.writeUInt32LE(tableCrc32c(message.subarray(0, 124)), 124);
    return message;
  }
}

function pictureOf(heads, size, seed) {
  const lines = heads * size;
  const payload = Buffer.alloc(lines * 8 + lines * size);
  for (let line = 0; line < lines; line++) {
    payload.writeFloatLE(0, 8 * line);
    payload.writeFloatLE(1 / 252, 8 * line + 4);
    const query = line % size;
    for (let key = 0; key <= query; key++) {
      payload[lines * 8 + line * size + key] = (query * 7 + key * 13 + seed * 61 + line) % 253;
    }
  }
  const about = { run: BigInt(`0x${kRunId}`), sequence: 1, step: 1, plan: 1, entry: 0 };
  const what = { point: 2, layer: 1, phase: 0, dtype: 7, compressor: 0 };
  return encodeRecord(
    { ...about, ...what, shape: [1, heads, size, size], features: size },
    payload,
  );
}

const quantile = (numbers, q) =>
  [...numbers].sort((a, b) => a - b)[Math.min(numbers.length - 1, Math.floor(q * numbers.length))];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function opened(browser) {
  const hub = new FakeHub({ dist: here('../dist'), firstStep: 1 });
  hub.plan = { number: 1, entries: [{ point: 'RawAttentionScore', layers: '1' }] };
  await hub.start();
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
  await page.addInitScript(watchPage);
  await page.goto(hub.url);
  await page.getByTestId('attention-map').waitFor();
  return { hub, page };
}

/** Runs in the page before everything else: times frames, long tasks, shown steps, tooltips. */
function watchPage() {
  const seen = { frames: [], long: [], steps: 0, tips: [] };
  window.seen = seen;
  const original = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) =>
    original((time) => {
      const start = performance.now();
      callback(time);
      seen.frames.push(performance.now() - start);
    });
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) seen.long.push(duration);
  }).observe({ type: 'longtask' });
  let moved = 0;
  addEventListener('pointermove', () => (moved = performance.now()), true);
  addEventListener('DOMContentLoaded', () => {
    new MutationObserver((changes) => {
      const of = (selector) =>
        changes.some(({ target }) => (target.parentElement ?? target).closest(selector) !== null);
      if (of('[data-testid="shown-step"]')) seen.steps += 1;
      if (moved > 0 && of('[data-testid="tip"]')) {
        seen.tips.push(performance.now() - moved);
        moved = 0;
      }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
}

/** Sends as fast as the page takes them, but no more than `perSecond`; returns what it sent. */
async function stream(hub, producer, perSecond, forSeconds) {
  let step = hub.step;
  let bytes = 0;
  const taken = hub.acknowledged;
  const start = performance.now();
  const first = step;
  while (performance.now() - start < forSeconds * 1000) {
    const due = first + ((performance.now() - start) / 1000) * perSecond;
    const waits = step - first - (hub.acknowledged - taken);
    if (step < due && waits < kWindow) {
      step += 1;
      const message = producer.message(step);
      hub.sendBinary(message);
      bytes += message.length;
    }
    await sleep(step < due ? 0 : 1);
  }
  hub.step = step;
  const took = (performance.now() - start) / 1000;
  return { messages: (step - first) / took, megabytes: bytes / took / 1e6 };
}

const browser = await chromium.launch({
  executablePath: process.env['TT_CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
});

{
  const { hub, page } = await opened(browser);
  const producer = new Producer(12, 512);
  await stream(hub, producer, 33, 3);
  await page.evaluate(() => Object.assign(window.seen, { frames: [], long: [], steps: 0 }));
  const sent = await stream(hub, producer, 33, seconds);
  const { frames, long, steps } = await page.evaluate(() => window.seen);
  console.log(`12 heads x 512 x 512, u8, live for ${seconds} s:`);
  console.log(`  sent ${sent.megabytes.toFixed(1)} MB/s, ${sent.messages.toFixed(1)} steps/s`);
  console.log(`  shown ${(steps / seconds).toFixed(1)} steps/s`);
  const ms = (q) => quantile(frames, q).toFixed(1);
  console.log(`  frame's script: median ${ms(0.5)} ms, p95 ${ms(0.95)} ms, max ${ms(1)} ms`);
  const over = long.filter((duration) => duration > 50);
  console.log(`  long tasks over 50 ms: ${over.length} ${over.map(Math.round).join(' ')}`);
  await page.close();
  await hub.stop();
}

{
  const { hub, page } = await opened(browser);
  const producer = new Producer(1, 2048);
  hub.step = 2;
  hub.sendBinary(producer.message(2));
  await page.getByText('2048 keys').waitFor();
  const map = page.getByTestId('attention-map');
  const redraws = [];
  for (let i = 0; i < 20; i++) {
    await page.evaluate(() => window.__tt.idle().then(() => (window.seen.frames = [])));
    await page.getByRole('button', { name: i % 2 === 0 ? '99 %' : 'full' }).click();
    await page.evaluate(() => window.__tt.idle());
    redraws.push(await page.evaluate(() => Math.max(...window.seen.frames)));
  }
  const box = await map.boundingBox();
  for (let i = 0; i < 60; i++) {
    await page.mouse.move(box.x + 60 + 7 * i, box.y + 10 + 5 * i);
    await sleep(30);
  }
  const { tips } = await page.evaluate(() => window.seen);
  const ms = (numbers, q) => `${quantile(numbers, q).toFixed(1)} ms`;
  console.log('2048 x 2048:');
  console.log(`  redraw: median ${ms(redraws, 0.5)}, p95 ${ms(redraws, 0.95)}`);
  console.log(`  tooltip after a move: median ${ms(tips, 0.5)}, p95 ${ms(tips, 0.95)}`);
  await page.close();
  await hub.stop();
}
await browser.close();
