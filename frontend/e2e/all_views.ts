import { expect, type Page } from '@playwright/test';
import type { RealRun } from './real_run.ts';
import { kFullBefore, type Replay } from './recorded.ts';
import { idle } from './support.ts';

// Every view, for tests that ask the same of all: those of a run that one controls, and those of records.

type View = readonly [name: string, query: string, testid: string];

/** Each with its place in the address, and what it shows. */
export const kLiveViews: readonly View[] = [
  ['overview', 'tab=overview', 'overview'],
  ['plan', 'tab=plan', 'plan-list'],
  ['interventions', 'tab=interventions', 'program-text'],
  ['prompts', 'tab=prompts', 'prompt'],
];

const kCompare = `tab=compare&stepb=${kFullBefore}&point=`;
export const kRecordedViews: readonly View[] = [
  ['model', 'tab=model', 'model'],
  ['tensor map', '', 'tile-map'],
  ['pinned cell', 'pin=17.5', 'pin'],
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
  ['traits', 'tab=traits', 'trait-maps'],
  ['ranked training data', 'tab=traits&traits=data', 'ranked'],
  ['compare', `${kCompare}HiddenStates`, 'compare-tiles-difference'],
  ['compare statistics', `${kCompare}HiddenStates+·+stats`, 'compare-stats'],
  ['compare projections', `${kCompare}HiddenStates+·+projection`, 'compare-layers-difference'],
  ['compare attention', `${kCompare}RawAttentionScore`, 'compare-attention-difference'],
  ['compare predictions', `${kCompare}Logits`, 'compare-topk-difference'],
  ['compare lens', `${kCompare}LogitLens`, 'compare-lens-difference'],
  ['compare health', `${kCompare}attention.entropy`, 'compare-health-difference'],
  ['compare contributions', `${kCompare}mlp.contribution`, 'compare-contributions-difference'],
];

/** Opens a view of a run whose plan has entries of many forms. */
export async function showLive(page: Page, run: RealRun, name: string): Promise<void> {
  const more = [
    { point: 'HiddenStates', compressor: { kind: 'projection', vectors: ['evil'] } },
    { point: 'HiddenStates', compressor: { kind: 'stats' } },
    { point: 'RawAttentionScore', tokens: [0, 16] },
    { point: 'Logits', compressor: { kind: 'topk', k: 5 } },
  ];
  await run.setPlan(...run.plan.entries, ...more);
  await show(page, kLiveViews, name, (query) => run.at(query));
}

/** Opens a view of the recorded run. */
export async function showRecorded(page: Page, recorded: Replay, name: string): Promise<void> {
  await show(page, kRecordedViews, name, (query) => recorded.at(query));
}

async function show(
  page: Page,
  views: readonly View[],
  name: string,
  at: (query: string) => string,
): Promise<void> {
  const view = views.find(([each]) => each === name);
  if (view === undefined) throw new Error(name);
  const [, query, testid] = view;
  await page.goto(at(query));
  await expect(page.getByTestId(testid)).toBeVisible();
  await idle(page);
}
