import { expect, type Page } from '@playwright/test';
import { kLiveViews, kRecordedViews, showLive, showRecorded } from './all_views.ts';
import { apply } from './interventions_support.ts';
import { test } from './recorded.ts';
import { idle } from './support.ts';

// Every view on the smallest screen, and at 200 % there: a quarter of its CSS pixels are left.

/** Controls whose middle cannot be brought under the mouse: cut off, or below something else. */
function unreachable(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    const found: string[] = [];
    const all = document.querySelectorAll('button, select, input, textarea, a[href], canvas');
    for (const control of all) {
      if (!control.checkVisibility({ visibilityProperty: true })) continue;
      control.scrollIntoView({ block: 'center', inline: 'center' });
      const { left, top, width, height } = control.getBoundingClientRect();
      const hit = document.elementFromPoint(left + width / 2, top + height / 2);
      // A canvas lies with its marks in a separate box.
      const box = control.tagName === 'CANVAS' ? control.parentElement : control;
      if (box?.contains(hit) === true) continue;
      const name = control.getAttribute('data-testid') ?? control.textContent?.trim() ?? '';
      const by = hit === null ? 'is off the screen' : `is below ${hit.tagName} ${hit.className}`;
      found.push(`${control.tagName} ${name} ${control.getAttribute('aria-label') ?? ''} ${by}`);
    }
    return found;
  });
}

/** Scrolled downwards alone: by how much the document, and what lies in it, is wider than the window. */
function tooWide(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    const found: string[] = [];
    for (const box of document.querySelectorAll('html, main, main *')) {
      // A table of numbers, and the grid of a lens, may be wider: they scroll by themselves.
      if (box.closest('table, [role="grid"] *') !== null) continue;
      const { left, right } = box.getBoundingClientRect();
      const isHidden = !box.checkVisibility() || right - left < 2;
      if (isHidden || right <= innerWidth + 1) continue;
      found.push(
        `${box.tagName}.${String(box.getAttribute('class'))} ends at ${Math.round(right)}`,
      );
    }
    if (document.documentElement.scrollWidth > innerWidth)
      found.push('the document scrolls sideways');
    return found.slice(0, 5);
  });
}

/** In one column no panel stands beside another. */
function sideBySide(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    const panels = [...document.querySelectorAll('main section')].filter((each) =>
      each.checkVisibility(),
    );
    return panels.flatMap((panel, index) => {
      const { top, bottom } = panel.getBoundingClientRect();
      const beside = panels.slice(index + 1).find((other) => {
        const box = other.getBoundingClientRect();
        return !panel.contains(other) && box.top < bottom - 1 && box.bottom > top + 1;
      });
      const names = [panel, beside].map((each) => each?.getAttribute('aria-label'));
      return beside === undefined ? [] : [names.join(' is beside ')];
    });
  });
}

async function checkReach(page: Page, name: string): Promise<void> {
  await idle(page);
  expect(await unreachable(page)).toEqual([]);
  await page.setViewportSize({ width: 640, height: 360 });
  await idle(page);
  expect(await unreachable(page)).toEqual([]);
  await page.evaluate(() => scrollTo(0, 0));
  expect(await tooWide(page)).toEqual([]);
  expect(await sideBySide(page)).toEqual([]);
  await page.screenshot({ path: `test-results/zoom-${name.replaceAll(' ', '-')}.png` });
}

const title = (name: string): string =>
  `every control of ${name} can be reached at 100 and at 200 %`;

for (const [name] of kLiveViews) {
  test(title(name), async ({ page, run }) => {
    await showLive(page, run, name);
    if (name === 'interventions') await apply(page);
    await checkReach(page, name);
  });
}

for (const [name] of kRecordedViews) {
  test(title(name), async ({ page, recorded }) => {
    await showRecorded(page, recorded, name);
    await checkReach(page, name);
  });
}
