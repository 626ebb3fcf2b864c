// Measures what a tab keeps of a long run (goal UX-4): as many steps as a run of eight hours has, sent as
// fast as the page takes them by a synthetic hub, the page on its first view.
//   vite build && node scripts/measure_memory.mjs [STEPS]
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';
import { Browser, Page, sleep } from './browser.mjs';

const steps = Number(process.argv[2] ?? (8 * 3600) / 0.2); // of the demo, 200 ms each
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const load = async (path) => (await runnerImport(here(path), { configFile: false })).module;
const { SyntheticHub } = await load('../e2e/synthetic/hub.ts');
const { encodeRecord, tableCrc32c } = await load('../e2e/synthetic/record.ts');
const { kRunId, stepFacts } = await load('../e2e/synthetic/data.ts');
const kWindow = 64;
const kTold = 12;
const kLayers = 4;
const kShape = [1, 256, 16];

/** A step's message: HiddenStates of every layer; the same numbers again and again. */
class Producer {
  constructor() {
    const numbers = Float32Array.from({ length: 256 * 16 }, (_, i) => Math.sin(i));
    const about = { run: BigInt(`0x${kRunId}`), sequence: 1, step: 1, plan: 1, entry: 0 };
    const what = { point: 7, phase: 0, dtype: 2, compressor: 1, shape: kShape, features: 256 };
    const records = Array.from({ length: kLayers }, (_, layer) =>
      encodeRecord({ ...about, ...what, layer: layer + 1 }, Buffer.from(numbers.buffer)),
    );
    this.size = records[0].length;
    this.message = Buffer.concat(records);
  }

  of(step) {
    const message = Buffer.from(this.message);
    for (let layer = 0; layer < kLayers; layer++) {
      const header = message.subarray(layer * this.size, layer * this.size + 128);
      header.writeBigUInt64LE(BigInt(step * kLayers + layer), 16);
      header.writeBigUInt64LE(BigInt(step), 24);
      header.writeUInt32LE(tableCrc32c(header.subarray(0, 124)), 124);
    }
    return message;
  }
}

/** Resident memory of the browser's processes that run pages, in MiB. */
async function rendererMemory(browser) {
  const { processInfo } = await browser.send('SystemInfo.getProcessInfo');
  const pages = processInfo.filter(({ type }) => type === 'renderer');
  const sizes = pages.map(({ id }) => {
    const status = readFileSync(`/proc/${id}/status`, 'utf8');
    return Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1024;
  });
  return Math.max(...sizes);
}

async function measure(browser, page) {
  await page.send('HeapProfiler.collectGarbage');
  const { usedSize, totalSize } = await page.send('Runtime.getHeapUsage');
  const kept = await page.evaluate(`/.*of.*kept/.exec(document.body.innerText)?.[0]`);
  const mib = (bytes) => (bytes / 2 ** 20).toFixed(1);
  const memory = (await rendererMemory(browser)).toFixed(0);
  return `heap ${mib(usedSize)} of ${mib(totalSize)} MiB, process ${memory} MiB, ${kept}`;
}

const browser = new Browser();
await browser.launch();
const hub = new SyntheticHub({ dist: here('../dist'), firstStep: 1 });
hub.plan = {
  number: 1,
  entries: [{ point: 'HiddenStates', layers: '1-4', compressor: { kind: 'tile', tiles: 16 } }],
};
await hub.start();
const page = new Page(browser);
await page.open(hub.url);
await page.until(`document.querySelector('[data-testid="tile-map"]') !== null`);
console.log(`step ${hub.step}: ${await measure(browser, page)}`);
const producer = new Producer();
const begin = performance.now();
const [first, taken] = [hub.step, hub.acknowledged];
for (let part = 1; part <= kTold; part++) {
  while (hub.step - first < (steps * part) / kTold) {
    if (hub.step - first - (hub.acknowledged - taken) < kWindow) {
      hub.step += 1;
      hub.sendBinary(producer.of(hub.step));
      hub.broadcast('step', stepFacts(hub.step));
    } else {
      await sleep(0);
    }
  }
  const spent = ((performance.now() - begin) / 1000).toFixed(0);
  console.log(`step ${hub.step}, after ${spent} s: ${await measure(browser, page)}`);
}
await page.close();
await hub.stop();
await browser.close();
