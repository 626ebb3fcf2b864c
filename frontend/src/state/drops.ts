import type { DroppedFacts, Plan } from '../protocol/messages';

/** Records and messages that the page did not get, since it was opened. */
export interface Drops {
  readonly viewer: number;
  readonly trainer: number;
  /** Of both, those that were no records. */
  readonly messages: number;
  /** Records by index in the plan. */
  readonly entries: ReadonlyMap<number, number>;
}

export const kNoDrops: Drops = { viewer: 0, trainer: 0, messages: 0, entries: new Map() };

/** The same drops, the entries counted anew: another plan has others. */
export function ofNewPlan(drops: Drops): Drops {
  return { ...drops, entries: kNoDrops.entries };
}

export function withDrops(drops: Drops, dropped: DroppedFacts): Drops {
  const { where, records, events = 0, entries = {} } = dropped;
  const key = where === 'trainer' ? 'trainer' : 'viewer';
  const byEntry = new Map(drops.entries);
  for (const [name, count] of Object.entries(entries)) {
    byEntry.set(Number(name), (byEntry.get(Number(name)) ?? 0) + count);
  }
  const counts = { [key]: drops[key] + records + events, messages: drops.messages + events };
  return { ...drops, ...counts, entries: byEntry };
}

/** A line for each entry, "entry 1, HiddenStates: 3", and for what were no records. */
export function dropLines({ entries, messages }: Drops, plan: Plan | null): readonly string[] {
  const lines = [...entries]
    .sort(([a], [b]) => a - b)
    .map(([index, count]) => {
      const point = plan?.entries[index]?.point;
      return `entry ${index + 1}${point === undefined ? '' : `, ${point}`}: ${count}`;
    });
  return messages === 0 ? lines : [...lines, `messages: ${messages}`];
}
