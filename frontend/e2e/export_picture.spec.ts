import { expect, type Locator, type Page } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { save } from './export_support.ts';
import {
  kSteer,
  type as typeProgram,
  visit as visitInterventions,
} from './interventions_support.ts';
import { visit as visitPlan } from './plan_support.ts';
import { decodePng } from './png.ts';
import { test } from './recorded.ts';
import { idle, kSmoke } from './support.ts';

// The picture of a view holds what the view shows.

// A picture of a small page is read faster.
test.use({ viewport: { width: 1120, height: 600 } });

/** How many colours the saved picture has where an element stands, a little inside of it. */
async function colorsOf(page: Page, element: Locator): Promise<number> {
  const box = await element.evaluate((of) => {
    const main = document.querySelector('main [data-export]') ?? document.querySelector('main');
    const panels = [...(main?.querySelectorAll('section') ?? [])];
    const boxes = panels.map((each) => each.getBoundingClientRect());
    const { left, top, width, height } = of.getBoundingClientRect();
    const x = left - Math.min(...boxes.map((each) => each.left));
    return { x, y: top - Math.min(...boxes.map((each) => each.top)), width, height };
  });
  const picture = decodePng(readFileSync(await save(page, 'png')));
  const colors = new Set<string>();
  for (let x = 3; x < Math.min(box.width - 3, 300); x++) {
    for (let y = 3; y < Math.min(box.height - 3, 60); y++) {
      colors.add(picture.at(2 * (12 + box.x + x), 2 * (60 + box.y + y)));
    }
  }
  return colors.size;
}

test('a program, its name, and what a plan would change', kSmoke, async ({ page, run }) => {
  await visitInterventions(page, run);
  await typeProgram(page, kSteer, 'steer');
  await expect(page.getByTestId('program-verdict')).toHaveText(/^The program is fine/);
  expect(await colorsOf(page, page.getByTestId('program-text'))).toBeGreaterThan(5);
  expect(await colorsOf(page, page.getByLabel('Name of the program'))).toBeGreaterThan(5);
  await visitPlan(page, run);
  expect(await colorsOf(page, page.getByTestId('plan-outcome'))).toBeGreaterThan(5);
});

test('the bars of probabilities', async ({ page, recorded }) => {
  await page.goto(recorded.at('tab=text'));
  const bar = page.locator('td .bar').first();
  await expect(bar).toBeVisible();
  await idle(page);
  const cell = page.locator('td.wide').first();
  const full = await colorsOf(page, cell);
  await bar.evaluate((element) => element.setAttribute('data-no-export', ''));
  expect(await colorsOf(page, cell)).toBeLessThan(full);
});
