import { expect } from '@playwright/test';
import { idle, kSmoke, open, test } from './support.ts';

test('the token leaves the address, and a reload works with the cookie', async ({ page, hub }) => {
  await page.goto(hub.url.replace('/#', '/?layer=2#'));
  await expect(page.getByTestId('tile-map')).toBeVisible();
  expect(page.url()).toBe(`http://127.0.0.1:${hub.port}/?layer=2`);
  expect(await page.content(), 'what a screenshot could show').not.toContain(hub.token);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy link' }).click();
  await expect(page.getByTestId('message')).toHaveText('Link copied');
  const link = await page.evaluate(() => navigator.clipboard.readText());
  expect(link).not.toContain(hub.token);
  const cookies = await page.context().cookies();
  expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict' }]);
  await page.reload();
  await expect(page.getByTestId('tile-map')).toBeVisible();
  await expect(page.getByTestId('chip')).toHaveText('live');
});

test('without token and cookie the page says what to do', kSmoke, async ({ page, hub }) => {
  await page.goto(`http://127.0.0.1:${hub.port}/`);
  const sheet = page.getByRole('alertdialog');
  await expect(sheet).toContainText('Open the address that contains the token');
  await expect(sheet).toContainText('--print-url');
  await expect(sheet).toContainText('open.html');
  await page.screenshot({ path: 'test-results/sign-in.png' });
  await page.goto(`http://127.0.0.1:${hub.port}/#token=wrong`);
  await expect(sheet).toContainText('did not accept the token');
  await page.goto(hub.url);
  await expect(page.getByTestId('tile-map')).toBeVisible();
  await expect(sheet).toHaveCount(0);
});

test('everything comes from the hub, and nothing breaks its security policy', async ({
  page,
  hub,
}) => {
  const hosts = new Set<string>();
  const complaints: string[] = [];
  page.on('request', (request) => hosts.add(new URL(request.url()).host));
  page.on('websocket', (socket) => hosts.add(new URL(socket.url()).host));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  await open(page, hub);
  for (let i = 0; i < 10; i++) hub.advance();
  await idle(page);
  expect([...hosts]).toEqual([`127.0.0.1:${hub.port}`]);
  expect(complaints).toEqual([]);
});

test('the first data are on screen within a second of the load', async ({ page, hub }) => {
  await page.goto(`http://127.0.0.1:${hub.port}/`);
  const begin = Date.now();
  await page.goto(hub.url);
  await page.reload();
  const loaded = Date.now();
  await expect(page.getByTestId('tile-map')).toBeVisible();
  expect(Date.now() - loaded).toBeLessThan(1000);
  expect(Date.now() - begin).toBeLessThan(5000);
});

test('a hub that dies and comes back is found again, without duplicates', async ({ page, hub }) => {
  await open(page, hub);
  const chip = page.getByTestId('chip');
  const port = hub.port;
  await hub.stop();
  await expect(chip).toHaveText(/reconnecting in \d\.\d s/);
  await page.screenshot({ path: 'test-results/reconnecting.png' });
  await page.waitForTimeout(1500);
  await expect(chip).toHaveAttribute('data-word', 'reconnecting');
  hub.step += 5;
  hub.firstKept = hub.step - 1;
  await hub.start(port);
  const back = Date.now();
  await expect(chip).toHaveText('live', { timeout: 5000 });
  expect(Date.now() - back).toBeLessThan(3000);
  await expect(page.getByTestId('shown-step')).toHaveText(`step ${hub.step}`);
  await idle(page);
  const steps = await page.evaluate(
    () => window.__tt?.app.series.all.map(({ step }) => step) ?? [],
  );
  expect(new Set(steps).size).toBe(steps.length);
  expect(steps).toEqual([...Array.from({ length: 120 }, (_, i) => i + 1), 124, 125]);
});

test('a hub that takes no more viewers is told, and joined when one has left', async ({
  page,
  hub,
}) => {
  hub.full = true;
  await page.goto(hub.url);
  const why = 'the hub cannot take more viewers';
  await expect(page.getByTestId('message')).toContainText(why);
  await expect(page.getByTestId('no-maps')).toContainText('Not connected to the hub');
  await expect(page.getByTestId('no-maps')).toContainText(why);
  hub.full = false;
  await expect(page.getByTestId('tile-map')).toBeVisible();
  await expect(page.getByTestId('message')).toHaveText('');
});

test('states of the run show in the chip', async ({ page, hub }) => {
  await open(page, hub);
  const chip = page.getByTestId('chip');
  hub.setPhase('evaluating');
  await expect(chip).toHaveText('live · evaluating');
  hub.setPhase('finished');
  await expect(chip).toHaveText('ended at step 120');
  hub.setPhase('lost');
  await expect(chip).toHaveText('trainer lost at step 120');
  hub.setPhase('training');
  hub.broadcast('state', { phase: 'training', step: 130 });
  await expect(chip).toHaveText('lagging 10 steps');
});

test('drops and messages of the run are shown', kSmoke, async ({ page, hub }) => {
  await open(page, hub);
  await expect(page.getByTestId('drops')).toHaveText('no drops');
  hub.broadcast('dropped', { records: 3, where: 'viewer', entries: { '0': 2, '1': 1 } });
  hub.broadcast('dropped', { records: 2, where: 'trainer' });
  hub.broadcast('dropped', { records: 4, where: 'viewer' });
  await expect(page.getByTestId('drops')).toHaveText('dropped: 7 here, 2 at the trainer');
  hub.broadcast('dropped', { records: 5, where: 'recording' });
  await expect(page.getByTestId('drops')).toHaveText(
    'dropped: 7 here, 2 at the trainer, 5 not recorded',
  );
  await expect(page.getByTestId('drops')).toHaveAttribute(
    'title',
    /entry 1, HiddenStates: 2\nentry 2, MLP1: 1$/,
  );
  hub.broadcast('log', { level: 'warning', message: 'the disk is nearly full' });
  await expect(page.getByTestId('message')).toHaveText('the disk is nearly full');
});
