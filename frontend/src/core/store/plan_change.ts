import type { Plan, PlanEntry } from '../../protocol/messages';
import { keysOfPlan } from './series_key';

/** The changes of a plan: "+ MLP1 stats 2-3, − QKV"; '' if the entries are the same. */
export function planChange(before: Plan, after: Plan): string {
  const old = entriesByKey(before);
  const now = entriesByKey(after);
  const kept = [...now].filter(([key]) => old.has(key));
  return [
    ...[...now].filter(([key]) => !old.has(key)).map(([, entry]) => `+ ${labelOf(entry)}`),
    ...kept.flatMap(([key, entry]) => changeOf(old.get(key) ?? entry, entry)),
    ...[...old].filter(([key]) => !now.has(key)).map(([, entry]) => `− ${labelOf(entry)}`),
  ].join(', ');
}

function entriesByKey(plan: Plan): ReadonlyMap<string, PlanEntry> {
  return new Map(keysOfPlan(plan).map((key, index) => [key, plan.entries[index]]));
}

/** "HiddenStates gradient tile 64 2-3" */
function labelOf({ point, direction, prompts, compressor, layers }: PlanEntry): string {
  const { kind, tiles, k } = compressor ?? {};
  const slope = direction === 'gradient' ? direction : '';
  const parts = [point, slope, prompts, kind, tiles, k, layers];
  return parts.filter((part) => part !== undefined && part !== '').join(' ');
}

const kMembers: readonly (readonly [name: string, of: (entry: PlanEntry) => string])[] = [
  ['', ({ enabled = true }) => (enabled ? 'on' : 'off')],
  ['layers', ({ layers = 'all' }) => layers],
  ['every', ({ every = 1 }) => String(every)],
  ['phases', ({ phases = ['train'] }) => phases.join('+')],
  ['dtype', ({ dtype = 'f32' }) => dtype],
];

/** "MLP1 every 1 → 10": the changes of an entry's members that are not part of its series key. */
function changeOf(before: PlanEntry, after: PlanEntry): readonly string[] {
  const changes = kMembers.flatMap(([name, of]) => {
    const [was, is] = [of(before), of(after)];
    if (was === is) return [];
    return name === '' ? [is] : [`${name} ${was} → ${is}`];
  });
  return changes.length === 0 ? [] : [`${after.point} ${changes.join(', ')}`];
}
