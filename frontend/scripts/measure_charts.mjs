// Frame times while 10 charts of 100,000 points are zoomed and moved: node scripts/measure_charts.mjs [WIDTH HEIGHT]
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from '@playwright/test';
import { build } from 'vite';

const [width = '1280', height = '720'] = process.argv.slice(2);
const root = fileURLToPath(new URL('./chart_harness', import.meta.url));
const outDir = mkdtempSync(join(tmpdir(), 'tt-charts-'));
await build({
  root,
  base: './',
  configFile: false,
  logLevel: 'error',
  build: { outDir, target: 'es2022' },
});

const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };
const server = createServer((request, response) => {
  const path = request.url === '/' ? '/index.html' : request.url;
  response.setHeader('Content-Type', types[extname(path)] ?? 'application/octet-stream');
  try {
    response.end(readFileSync(join(outDir, path)));
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

const browser = await chromium.launch({
  executablePath: process.env['TT_CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
});
const page = await browser.newPage({ viewport: { width: Number(width), height: Number(height) } });
page.on('pageerror', (error) => console.error(error));
await page.goto(`http://127.0.0.1:${server.address().port}/`);
const session = await browser.newBrowserCDPSession();
const spent = async () => {
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  return new Map(processInfo.map(({ type, id, cpuTime }) => [`${type} ${id}`, cpuTime]));
};
const before = await spent();
const results = await page.evaluate(() => window.__run());
const after = await spent();
await page.screenshot({ path: process.env['TT_SCREENSHOT'] ?? join(tmpdir(), 'tt-charts.png') });
await browser.close();
server.close();
rmSync(outDir, { recursive: true });

const percentile = (values, part) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(part * values.length))];
const line = (name, { frames, works }) => {
  const times = [0.5, 0.95, 1].map((part) => percentile(frames, part).toFixed(1));
  const work = [0.5, 0.95].map((part) => percentile(works, part).toFixed(1));
  console.log(
    `${name}: frames p50 ${times[0]}, p95 ${times[1]}, max ${times[2]} ms; at work p50 ${work[0]}, p95 ${work[1]} ms`,
  );
};
for (const [name, result] of Object.entries(results)) line(name, result);
const all = Object.values(results);
line('all', {
  frames: all.flatMap(({ frames }) => frames),
  works: all.flatMap(({ works }) => works),
});
// On a machine that does other work too, the CPU time tells more than the clock.
const frames = all.flatMap((result) => result.frames).length;
for (const [name, time] of after) {
  const used = (1000 * (time - (before.get(name) ?? 0))) / frames;
  if (used > 0.1) console.log(`CPU time a frame, ${name.split(' ')[0]}: ${used.toFixed(1)} ms`);
}
