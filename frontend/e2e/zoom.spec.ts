import { expect, type Page } from '@playwright/test';
import { apply } from './interventions_support.ts';
import { idle, test } from './support.ts';

// Every view on the smallest screen, and at 200 % there: a quarter of its CSS pixels are left.

const kTile = { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } };
const kViews: readonly (readonly [name: string, query: string, testid: string])[] = [
  ['overview', 'tab=overview', 'overview'],
  ['model', 'tab=model', 'model'],
  ['tensor map', '', 'tile-map'],
  ['all layers', 'maps=all', 'layer-maps'],
  ['over steps', 'maps=over', 'over-map'],
  ['attention', 'point=RawAttentionScore', 'head-maps'],
  ['statistics', 'point=HiddenStates+·+stats', 'ridge'],
  ['projections', 'point=HiddenStates+·+projection', 'projection-map'],
  ['text', 'tab=text', 'tokens'],
  ['compare', 'tab=compare&stepb=110', 'compare-tiles-difference'],
  ['plan', 'tab=plan', 'plan-list'],
  ['interventions', 'tab=interventions', 'program-text'],
  ['prompts', 'tab=prompts', 'prompt'],
];

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
      // A canvas lies with its marks in a box of their own.
      const box = control.tagName === 'CANVAS' ? control.parentElement : control;
      if (box?.contains(hit) === true) continue;
      const name = control.getAttribute('data-testid') ?? control.textContent?.trim() ?? '';
      const by = hit === null ? 'is off the screen' : `is below ${hit.tagName} ${hit.className}`;
      found.push(`${control.tagName} ${name} ${control.getAttribute('aria-label') ?? ''} ${by}`);
    }
    return found;
  });
}

/** These scroll only downwards there. */
const kNarrow: ReadonlySet<string> = new Set([
  ...['overview', 'model', 'tensor map', 'all layers', 'prompts'],
]);

/** Scrolled downwards alone: by how much the document, and what lies in it, is wider than the window. */
function tooWide(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    const found: string[] = [];
    for (const box of document.querySelectorAll('html, main, main *')) {
      // A table of numbers may be wider than the window: it scrolls by itself.
      if (box.closest('table') !== null) continue;
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

for (const [name, query, testid] of kViews) {
  test(`every control of ${name} can be reached at 100 and at 200 %`, async ({ page, hub }) => {
    hub.plan = {
      number: 1,
      entries: [
        kTile,
        { point: 'HiddenStates', compressor: { kind: 'projection', vectors: ['evil'] } },
        { point: 'HiddenStates', compressor: { kind: 'stats' } },
        { point: 'RawAttentionScore', tokens: [0, 16] },
        { point: 'Logits', compressor: { kind: 'topk', k: 5 } },
        { point: 'InputTokens' },
      ],
    };
    await page.goto(hub.url.replace('/#', `/?${query}#`));
    await expect(page.getByTestId(testid)).toBeVisible();
    if (name === 'interventions') await apply(page);
    await idle(page);
    expect(await unreachable(page)).toEqual([]);
    await page.setViewportSize({ width: 640, height: 360 });
    await idle(page);
    expect(await unreachable(page)).toEqual([]);
    await page.evaluate(() => scrollTo(0, 0));
    if (kNarrow.has(name)) expect(await tooWide(page)).toEqual([]);
    await page.screenshot({ path: `test-results/zoom-${name.replace(' ', '-')}.png` });
  });
}
