import { formatInteger } from '../../base/format';
import type { DroppedFacts, Plan } from '../../protocol/messages';

/** The number of records and messages that were dropped since the page was opened. */
export interface Drops {
  readonly viewer: number;
  readonly trainer: number;
  /** Missing only in the recording, not on the page. */
  readonly recording: number;
  /** The part of all drops that were messages, not records. */
  readonly messages: number;
  /** Dropped records by index of the entry in the plan. */
  readonly entries: ReadonlyMap<number, number>;
}

export const kNoDrops: Drops = {
  viewer: 0,
  trainer: 0,
  recording: 0,
  messages: 0,
  entries: new Map(),
};

/** The places of the drops, "3 here, 0 at the trainer"; empty if there are no drops. */
export function dropPlaces({ viewer, trainer, recording }: Drops): string {
  if (viewer + trainer + recording === 0) return '';
  const places = [`${formatInteger(viewer)} here`, `${formatInteger(trainer)} at the trainer`];
  return [...places, ...(recording > 0 ? [`${formatInteger(recording)} not recorded`] : [])].join(
    ', ',
  );
}

const kPlaces = ['viewer', 'trainer', 'recording'] as const;

/** The same drops without the counts of entries, because a new plan has other entries. */
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

/** A line for each entry, "entry 1, HiddenStates: 3", and a line for messages. */
export function dropLines({ entries, messages }: Drops, plan: Plan | null): readonly string[] {
  const lines = [...entries]
    .sort(([a], [b]) => a - b)
    .map(([index, count]) => {
      const point = plan?.entries[index]?.point;
      return `entry ${index + 1}${point === undefined ? '' : `, ${point}`}: ${count}`;
    });
  return messages === 0 ? lines : [...lines, `messages: ${messages}`];
}
