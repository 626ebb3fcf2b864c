// Measures the speed of the maps in a browser (goals UX-2 and UX-10), with a synthetic producer and
// no trainer beside it:
//   vite build && node scripts/measure_maps.mjs [SECONDS]
import { availableParallelism, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';
import { Browser, Page, sleep } from './browser.mjs';

const seconds = Number(process.argv[2] ?? 60);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const load = async (path) => (await runnerImport(here(path), { configFile: false })).module;
const { SyntheticHub } = await load('../e2e/synthetic/hub.ts');
const { encodeRecord, tableCrc32c } = await load('../e2e/synthetic/record.ts');
const { kRunId } = await load('../e2e/synthetic/data.ts');
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

async function opened(browser) {
  const hub = new SyntheticHub({ dist: here('../dist'), firstStep: 1 });
  hub.plan = { number: 1, entries: [{ point: 'RawAttentionScore', layers: '1' }] };
  await hub.start();
  const page = new Page(browser);
  await page.open(hub.url, watchPage);
  await page.until(`document.querySelector('[data-testid="attention-map"]') !== null`);
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

/** CPU seconds by process, and of the page's main thread: what a busy machine blurs less. */
async function costMeter(browser, page) {
  await page.send('Performance.enable', { timeDomain: 'threadTicks' });
  const read = async () => {
    const { metrics } = await page.send('Performance.getMetrics');
    const { processInfo } = await browser.send('SystemInfo.getProcessInfo');
    const spent = { main: metrics.find(({ name }) => name === 'TaskDuration').value };
    for (const { type, cpuTime } of processInfo) spent[type] = (spent[type] ?? 0) + cpuTime;
    return spent;
  };
  const before = await read();
  return async () => {
    const after = await read();
    return Object.fromEntries(
      Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)]),
    );
  };
}

async function measureLive(browser) {
  const { hub, page } = await opened(browser);
  const producer = new Producer(12, 512);
  await stream(hub, producer, 33, 3);
  await page.evaluate('Object.assign(seen, { frames: [], long: [], steps: 0 }) && 0');
  const cost = await costMeter(browser, page);
  const sent = await stream(hub, producer, 33, seconds);
  const spent = await cost();
  const { frames, long, steps } = await page.evaluate('seen');
  console.log(`12 heads x 512 x 512, u8, live for ${seconds} s:`);
  console.log(`  sent ${sent.megabytes.toFixed(1)} MB/s, ${sent.messages.toFixed(1)} steps/s`);
  console.log(`  shown ${(steps / seconds).toFixed(1)} steps/s`);
  const ms = (q) => quantile(frames, q).toFixed(1);
  console.log(`  frame's script: median ${ms(0.5)} ms, p95 ${ms(0.95)} ms, max ${ms(1)} ms`);
  console.log('  CPU of a shown step, in ms:');
  for (const [name, spell] of Object.entries(spent)) {
    console.log(`    ${name}: ${((1000 * spell) / steps).toFixed(1)}`);
  }
  console.log(
    `  the machine's load: ${loadavg()[0].toFixed(1)} on ${availableParallelism()} cores`,
  );
  const over = long.filter((duration) => duration > 50);
  console.log(`  long tasks over 50 ms: ${over.length} ${over.map(Math.round).join(' ')}`);
  await page.close();
  await hub.stop();
}

async function measureRedraw(browser) {
  const { hub, page } = await opened(browser);
  hub.step = 2;
  hub.sendBinary(new Producer(1, 2048).message(2));
  await page.until(`document.body.textContent.includes('2048 keys')`);
  const redraws = [];
  for (let i = 0; i < 20; i++) {
    const name = i % 2 === 0 ? '99 %' : 'full';
    const button = `[...document.querySelectorAll('button')].find((b) => b.textContent === '${name}')`;
    await page.evaluate(`__tt.idle().then(() => { seen.frames = []; ${button}.click(); })`);
    redraws.push(await page.evaluate('__tt.idle().then(() => Math.max(...seen.frames))'));
  }
  for (let i = 0; i < 60; i++) {
    const place = { x: 420 + 7 * i, y: 180 + 5 * i };
    await page.send('Input.dispatchMouseEvent', { type: 'mouseMoved', ...place });
    await sleep(30);
  }
  const tips = await page.evaluate('seen.tips');
  const ms = (numbers, q) => `${quantile(numbers, q).toFixed(1)} ms`;
  console.log('2048 x 2048:');
  console.log(`  redraw: median ${ms(redraws, 0.5)}, p95 ${ms(redraws, 0.95)}`);
  console.log(`  tooltip after a move: median ${ms(tips, 0.5)}, p95 ${ms(tips, 0.95)}`);
  await page.close();
  await hub.stop();
}

const browser = new Browser();
await browser.launch();
await measureLive(browser);
await measureRedraw(browser);
await browser.close();
