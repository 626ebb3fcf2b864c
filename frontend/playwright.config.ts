import { defineConfig } from '@playwright/test';

/** The browser of the system: none is downloaded. */
export const kLaunch = {
  executablePath: process.env.TT_CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
};

export default defineConfig({
  testDir: 'e2e',
  testIgnore: 'live*.spec.ts',
  outputDir: 'test-results/artifacts',
  workers: 1,
  timeout: 30_000,
  reporter: [['list']],
  use: { launchOptions: kLaunch, viewport: { width: 1280, height: 720 } },
});
