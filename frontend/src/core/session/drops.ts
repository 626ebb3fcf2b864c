import { formatInteger } from '../../base/format';
import type { DroppedFacts, Plan } from '../../protocol/messages';

/** Records and messages that the page did not get, since it was opened. */
export interface Drops {
  readonly viewer: number;
  readonly trainer: number;
  /** Not lost to the page, but to the recording. */
  readonly recording: number;
  /** Of all, those that were no records. */
  readonly messages: number;
  /** Records by index in the plan. */
  readonly entries: ReadonlyMap<number, number>;
}

export const kNoDrops: Drops = {
  viewer: 0,
  trainer: 0,
  recording: 0,
  messages: 0,
  entries: new Map(),
};

/** Where they were dropped, "3 here, 0 at the trainer"; empty if nowhere. */
export function dropPlaces({ viewer, trainer, recording }: Drops): string {
  if (viewer + trainer + recording === 0) return '';
  const places = [`${formatInteger(viewer)} here`, `${formatInteger(trainer)} at the trainer`];
  return [...places, ...(recording > 0 ? [`${formatInteger(recording)} not recorded`] : [])].join(
    ', ',
  );
}

const kPlaces = ['viewer', 'trainer', 'recording'] as const;

/** The same drops, the entries counted anew: another plan has others. */
export function ofNewPlan(drops: Drops): Drops {
  return { ...drops, entries: kNoDrops.entries };
}

export function withDrops(drops: Drops, dropped: DroppedFacts): Drops {
  const { where, records, events = 0, entries = {} } = dropped;
  const key = kPlaces.find((place) => place === where) ?? 'viewer';
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
