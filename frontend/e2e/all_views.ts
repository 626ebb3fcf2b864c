import { expect, type Page } from '@playwright/test';
import type { FakeHub } from './fake_hub.ts';
import type { Entry } from './fake_tensors.ts';
import { idle } from './support.ts';

// Every view that the fake hub has data for, for tests that ask the same of all.

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
/** What is asked of each view: its place in the address, and what it shows. */
export const kViews: readonly (readonly [name: string, query: string, testid: string])[] = [
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
  ['prompts', 'tab=prompts', 'prompt'],
];

/** Opens a view of `kViews` on a hub that traces what all of them need. */
export async function showView(page: Page, hub: FakeHub, name: string): Promise<void> {
  const view = kViews.find(([each]) => each === name);
  if (view === undefined) throw new Error(name);
  const [, query, testid] = view;
  hub.plan = { number: 1, entries: kEntries };
  await page.goto(hub.url.replace('/#', `/?${query}#`));
  await expect(page.getByTestId(testid)).toBeVisible();
  await idle(page);
}
