import type { DroppedFacts, Plan } from '../protocol/messages';

/** Records that the page did not get, since it was opened. */
export interface Drops {
  readonly viewer: number;
  readonly trainer: number;
  /** By index in the plan. */
  readonly entries: ReadonlyMap<number, number>;
}

export const kNoDrops: Drops = { viewer: 0, trainer: 0, entries: new Map() };

/** The same drops, the entries counted anew: another plan has others. */
export function ofNewPlan(drops: Drops): Drops {
  return { ...drops, entries: kNoDrops.entries };
}

export function withDrops(drops: Drops, { where, records, entries = {} }: DroppedFacts): Drops {
  const key = where === 'trainer' ? 'trainer' : 'viewer';
  const byEntry = new Map(drops.entries);
  for (const [name, count] of Object.entries(entries)) {
    byEntry.set(Number(name), (byEntry.get(Number(name)) ?? 0) + count);
  }
  return { ...drops, [key]: drops[key] + records, entries: byEntry };
}

/** A line for each entry: "entry 1, HiddenStates: 3". */
export function dropLines({ entries }: Drops, plan: Plan | null): readonly string[] {
  return [...entries]
    .sort(([a], [b]) => a - b)
    .map(([index, count]) => {
      const point = plan?.entries[index]?.point;
      return `entry ${index + 1}${point === undefined ? '' : `, ${point}`}: ${count}`;
    });
}
