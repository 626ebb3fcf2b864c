import { expect, type Page } from '@playwright/test';
import { advance, openAfter } from './real_run.ts';
import { test } from './recorded.ts';
import { idle, open } from './support.ts';

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

async function plotBox(page: Page): Promise<Box> {
  const box = await page.locator('.u-over').first().boundingBox();
  if (box === null) throw new Error('no curve on the page');
  return box;
}

/** The step that the readout names with the mouse at a fraction of the curve's width. */
async function stepAt(page: Page, fraction: number): Promise<number> {
  const box = await plotBox(page);
  await page.mouse.move(box.x + 2, box.y + 5);
  await page.mouse.move(box.x + fraction * box.width, box.y + box.height / 2);
  await idle(page);
  const text = await page.getByTestId('loss-readout').innerText();
  return Number(/step (\d+)/.exec(text)?.[1]);
}

async function zoom(page: Page, from: number, to: number): Promise<void> {
  const box = await plotBox(page);
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + from * box.width, y);
  await page.mouse.down();
  await page.mouse.move(box.x + to * box.width, y, { steps: 4 });
  await page.mouse.up();
}

test('new data do not move a zoom; a double click shows all again', async ({ page, run }) => {
  await openAfter(page, run, 120);
  expect(await stepAt(page, 0.5)).toBeCloseTo(60, -1);
  await zoom(page, 0.1, 0.3);
  const [left, right] = [await stepAt(page, 0.02), await stepAt(page, 0.97)];
  expect(left).toBeGreaterThan(8);
  expect(right).toBeLessThan(40);
  await advance(page, 10);
  expect([await stepAt(page, 0.02), await stepAt(page, 0.97)]).toEqual([left, right]);
  await page.mouse.dblclick((await plotBox(page)).x + 80, (await plotBox(page)).y + 60);
  expect(await stepAt(page, 0.97)).toBeGreaterThan(120);
  await advance(page, 10);
  // The last pixels are the grip's that resizes the curves.
  expect(await stepAt(page, 0.97)).toBeGreaterThan(133);
});

test('the cursor of one curve shows in the other, and the readout tells the values', async ({
  page,
  recorded,
}) => {
  await open(page, recorded);
  await stepAt(page, 0.5);
  const cursors = await page
    .locator('.u-cursor-x')
    .evaluateAll((all) => all.map((each) => new DOMMatrix(getComputedStyle(each).transform).m41));
  expect(cursors).toHaveLength(2);
  expect(Math.abs(cursors[0] - cursors[1])).toBeLessThan(2);
});

test('smoothing and a logarithmic axis change the picture and the address', async ({
  page,
  recorded,
}) => {
  await open(page, recorded);
  const picture = (): Promise<string> =>
    page
      .locator('.uplot canvas')
      .first()
      .evaluate((element) => (element as HTMLCanvasElement).toDataURL());
  const before = await picture();
  await page.getByTestId('smoothing').fill('0');
  await idle(page);
  const rough = await picture();
  expect(rough).not.toBe(before);
  await page.getByRole('button', { name: 'log', exact: true }).first().click();
  await idle(page);
  expect(await picture()).not.toBe(rough);
  expect(page.url()).toContain('smooth=0&logloss=1');
});
