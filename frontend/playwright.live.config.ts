import { defineConfig } from '@playwright/test';
import { kLaunch } from './playwright.config.ts';

// The page against a real run: TT_PAGE_URL=http://127.0.0.1:PORT/#token=… npm run e2e:live
if (process.env.TT_PAGE_URL === undefined) {
  throw new Error('set TT_PAGE_URL to the address that the run printed');
}

export default defineConfig({
  testDir: 'e2e',
  testMatch: 'live*.spec.ts',
  outputDir: 'test-results/live-artifacts',
  workers: 1,
  timeout: 120_000,
  reporter: [['list']],
  use: { launchOptions: kLaunch, viewport: { width: 1280, height: 720 } },
});
