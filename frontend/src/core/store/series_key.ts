import type { CompressorFacts, Plan, PlanEntry } from '../../protocol/messages';

/**
 * What the records of an entry are: point, direction, data, compressor and its parameters. Entries of
 * different plans with one key continue one series. Layers, steps, phases and dtype are not part of it:
 * they say which records there are, not what they hold.
 */
export function keyOfEntry(entry: PlanEntry): string {
  const { point, direction = 'value', prompts = null, rows = 1, tokens = null } = entry;
  const { micro_batches: batches = '0', eval_forwards: forwards = 'first' } = entry;
  const data = prompts === null ? [batches, forwards] : [prompts];
  return JSON.stringify([point, direction, data, rows, tokens, membersOf(entry.compressor)]);
}

function membersOf(compressor: CompressorFacts | undefined): readonly unknown[] {
  return Object.entries(compressor ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
}

/** The key of each entry of a plan; of entries that are alike each later one has its number, too. */
export function keysOfPlan({ entries }: Plan): readonly string[] {
  const times = new Map<string, number>();
  return entries.map((entry) => {
    const key = keyOfEntry(entry);
    const time = (times.get(key) ?? 0) + 1;
    times.set(key, time);
    return time === 1 ? key : `${key} #${time}`;
  });
}

/** The keys of the series of a run, by plan and entry. */
export class SeriesKeys {
  private readonly plans = new Map<number, readonly string[]>();
  // Plans have mostly the same entries: a text is held once.
  private readonly texts = new Map<string, string>();

  knows(plan: number): boolean {
    return this.plans.has(plan);
  }

  learn(plan: Plan): void {
    const keys = keysOfPlan(plan).map((key) => {
      if (!this.texts.has(key)) this.texts.set(key, key);
      return this.texts.get(key) ?? key;
    });
    this.plans.set(plan.number, keys);
  }

  /** Of a plan that is not known an entry stands for itself alone. */
  of(plan: number, entry: number): string {
    return this.plans.get(plan)?.[entry] ?? `${plan}/${entry}`;
  }

  clear(): void {
    this.plans.clear();
    this.texts.clear();
  }
}
