import { expect, type Page, test } from '@playwright/test';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

// Another page of this machine, in the browser that holds the run's cookie: what it may not do
// (SEC-2). Ports do not count for SameSite, so the browser does send the cookie; the hub refuses.

const kPage = new URL(process.env.TT_PAGE_URL ?? '');
const kSocket = `ws://${kPage.host}/ws`;

let server: Server;
let port = 0;

test.beforeAll(async () => {
  server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>foreign</title>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});

test.afterAll(() => {
  server.close();
});

/** "open" or "closed", whichever comes first. */
async function tryToConnect(page: Page, url: string): Promise<string> {
  return page.evaluate(
    (address) =>
      new Promise<string>((resolve) => {
        const socket = new WebSocket(address);
        socket.onopen = () => resolve('open');
        socket.onclose = () => resolve('closed');
      }),
    url,
  );
}

/** The status that the page may read, or "refused". */
async function tryToRead(page: Page, url: string): Promise<string> {
  return page.evaluate(
    (address) =>
      fetch(address, { credentials: 'include' }).then(
        (answer) => String(answer.status),
        () => 'refused',
      ),
    url,
  );
}

test('a page of another origin does not reach the hub', async ({ page }) => {
  const token = new URLSearchParams(kPage.hash.slice(1)).get('token') ?? '';
  await page.goto(kPage.href);
  await expect(page.getByTestId('chip')).toBeVisible();

  await test.step('the page itself connects', async () => {
    await expect.poll(() => page.context().cookies(), { timeout: 20_000 }).toHaveLength(1);
    expect(await tryToConnect(page, kSocket)).toBe('open');
    expect(await tryToRead(page, `${kPage.origin}/healthz`)).toBe('200');
  });

  for (const host of ['127.0.0.1', 'localhost']) {
    await test.step(`a page of http://${host} at another port does not`, async () => {
      await page.goto(`http://${host}:${port}/`);
      expect(await tryToConnect(page, kSocket)).toBe('closed');
      expect(await tryToConnect(page, `${kSocket}?token=${token}`)).toBe('closed');
      expect(await tryToConnect(page, kSocket.replace('127.0.0.1', 'localhost'))).toBe('closed');
      expect(await tryToRead(page, `${kPage.origin}/healthz`)).toBe('refused');
      expect(await tryToRead(page, kPage.origin)).toBe('refused');
    });
  }

  await test.step('a page without an origin does not, nor one in a frame', async () => {
    const found = page.waitForEvent('console', { predicate: (m) => m.text().startsWith('found') });
    await page.evaluate((address) => {
      const frame = document.createElement('iframe');
      frame.setAttribute('sandbox', 'allow-scripts');
      frame.srcdoc = `<script>
        const socket = new WebSocket('${address}');
        socket.onopen = () => console.log('found open');
        socket.onclose = () => console.log('found closed from', origin);
      </script>`;
      document.body.append(frame);
    }, kSocket);
    expect((await found).text()).toBe('found closed from null');
    await page.evaluate((address) => {
      const frame = document.createElement('iframe');
      frame.src = address;
      document.body.append(frame);
    }, kPage.origin);
    await expect.poll(() => page.frames().length).toBe(3);
    const framed = page.frames()[2];
    expect(await framed?.locator('[data-testid]').count()).toBe(0);
  });
});
