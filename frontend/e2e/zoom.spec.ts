import { expect, type Page } from '@playwright/test';
import type { Entry } from './fake_tensors.ts';
import { apply } from './interventions_support.ts';
import { idle, test } from './support.ts';

// Every view on the smallest screen, and at 200 % there: a quarter of its CSS pixels are left.

const kEntries: readonly Entry[] = [
  { point: 'HiddenStates', compressor: { kind: 'tile', tiles: 64 } },
  { point: 'HiddenStates', compressor: { kind: 'projection', vectors: ['evil'] } },
  { point: 'HiddenStates', compressor: { kind: 'stats' } },
  { point: 'HiddenStates', compressor: { kind: 'topk', k: 5 } },
  { point: 'HiddenStates', compressor: { kind: 'top_tokens', columns: [3, 17], k: 8 } },
  { point: 'RawAttentionScore', tokens: [0, 16] },
  { point: 'Logits', compressor: { kind: 'topk', k: 5 } },
  { point: 'LogitLens', compressor: { kind: 'topk', k: 5 } },
  { point: 'attention.entropy', compressor: { kind: 'none' } },
  { point: 'mlp.contribution', compressor: { kind: 'none' } },
  { point: 'Updates', tokens: [0, 8], compressor: { kind: 'none' } },
  { point: 'InputTokens' },
];

const kCompare = 'tab=compare&stepb=110&point=';
const kViews: readonly (readonly [name: string, query: string, testid: string])[] = [
  ['overview', 'tab=overview', 'overview'],
  ['model', 'tab=model', 'model'],
  ['tensor map', '', 'tile-map'],
  ['pinned cell', 'pin=60.12', 'pin'],
  ['all layers', 'maps=all', 'layer-maps'],
  ['over steps', 'maps=over', 'over-map'],
  ['attention', 'point=RawAttentionScore', 'head-maps'],
  ['statistics', 'point=HiddenStates+·+stats', 'ridge'],
  ['statistics as a map', 'point=HiddenStates+·+stats&statas=map', 'stat-map'],
  ['projections', 'point=HiddenStates+·+projection', 'projection-map'],
  ['largest', 'point=HiddenStates+·+topk', 'topk-map'],
  ['top tokens', 'point=HiddenStates+·+top_tokens', 'top-tokens'],
  ['lens', 'point=LogitLens', 'lens-grid'],
  ['health', 'point=attention.entropy', 'head-grid'],
  ['contributions', 'point=mlp.contribution', 'contributions'],
  ['updates', 'point=Updates', 'updates'],
  ['text', 'tab=text', 'tokens'],
  ['predictions', 'tab=text&point=Logits', 'predictions'],
  ['compare', `${kCompare}HiddenStates`, 'compare-tiles-difference'],
  ['compare statistics', `${kCompare}HiddenStates+·+stats`, 'compare-stats'],
  ['compare projections', `${kCompare}HiddenStates+·+projection`, 'compare-layers-difference'],
  ['compare attention', `${kCompare}RawAttentionScore`, 'compare-attention-difference'],
  ['compare predictions', `${kCompare}Logits`, 'compare-topk-difference'],
  ['compare lens', `${kCompare}LogitLens`, 'compare-lens-difference'],
  ['compare health', `${kCompare}attention.entropy`, 'compare-health-difference'],
  ['compare contributions', `${kCompare}mlp.contribution`, 'compare-contributions-difference'],
  ['plan', 'tab=plan', 'plan-list'],
  ['interventions', 'tab=interventions', 'program-text'],
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

for (const [name, query, testid] of kViews) {
  test(`every control of ${name} can be reached at 100 and at 200 %`, async ({ page, hub }) => {
    hub.plan = { number: 1, entries: kEntries };
    await page.goto(hub.url.replace('/#', `/?${query}#`));
    await expect(page.getByTestId(testid)).toBeVisible();
    if (name === 'interventions') await apply(page);
    await idle(page);
    expect(await unreachable(page)).toEqual([]);
    await page.setViewportSize({ width: 640, height: 360 });
    await idle(page);
    expect(await unreachable(page)).toEqual([]);
    await page.evaluate(() => scrollTo(0, 0));
    expect(await tooWide(page)).toEqual([]);
    await page.screenshot({ path: `test-results/zoom-${name.replaceAll(' ', '-')}.png` });
  });
}
