// Pictures of a live run for the docs:
//   node scripts/screenshot.mjs 'http://127.0.0.1:8765/#token=…' OUT.png [dark|light] [WIDTH HEIGHT]
import { chromium } from '@playwright/test';

const [url, out, colorScheme = 'dark', width = '1440', height = '900'] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
});
const page = await browser.newPage({
  viewport: { width: Number(width), height: Number(height) },
  colorScheme,
});
await page.goto(url);
await page.waitForTimeout(4000);
await page.screenshot({ path: out });
await browser.close();
