import { kLogitsPoint, type Plan, type PlanEntry } from '../../protocol/messages';
import { kindOfForm } from '../../core/store/compressors';
import type { WatchedEntry } from '../../core/session/watched';

/** The entries to show a text with: predictions if there are any, else entries by token, else all. */
export function textEntries(watched: readonly WatchedEntry[]): readonly WatchedEntry[] {
  const predicting = watched.filter(
    ({ facts, compressor }) => facts.name === kLogitsPoint && compressor.kind === 'topk',
  );
  if (predicting.length > 0) return predicting;
  const byTokens = watched.filter(({ form }) => kindOfForm(form)?.isByToken === true);
  return byTokens.length > 0 ? byTokens : watched;
}

/** The entries that a plan lacks for the text with its predictions. */
export function missingForText(plan: Plan): readonly PlanEntry[] {
  const has = (test: (entry: PlanEntry) => boolean): boolean => plan.entries.some(test);
  const predicts = has(
    ({ point, compressor }) => point === kLogitsPoint && (compressor?.kind ?? 'topk') === 'topk',
  );
  const tokens = has(({ point, prompts }) => point === 'InputTokens' && prompts === undefined);
  return [
    ...(predicts ? [] : [{ point: 'Logits', compressor: { kind: 'topk', k: 10 } }]),
    ...(tokens ? [] : [{ point: 'InputTokens' }]),
  ];
}
