import type { CompressorFacts, Plan, PlanEntry } from '../../protocol/messages';

/**
 * The key identifies the content of an entry's records: point, direction, data, compressor and its
 * parameters. Entries of different plans with the same key continue one series. Layers, steps, phases
 * and dtype are not part of the key, because they only select the records.
 */
export function keyOfEntry(entry: PlanEntry): string {
  const { point, direction = 'value', prompts = null, rows = 1, tokens = null } = entry;
  const { micro_batches: batches = '0', eval_forwards: forwards = 'first' } = entry;
  const { mean_over: mean = '', responses = false } = entry;
  const data = prompts === null ? [batches, forwards] : [prompts, mean, responses];
  return JSON.stringify([point, direction, data, rows, tokens, membersOf(entry.compressor)]);
}

function membersOf(compressor: CompressorFacts | undefined): readonly unknown[] {
  return Object.entries(compressor ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
}

/** The key of each entry of a plan. If entries have the same key, the later ones also get a number. */
export function keysOfPlan({ entries }: Plan): readonly string[] {
  const times = new Map<string, number>();
  return entries.map((entry) => {
    const key = keyOfEntry(entry);
    const time = (times.get(key) ?? 0) + 1;
    times.set(key, time);
    return time === 1 ? key : `${key} #${time}`;
  });
}

/** The series keys of a run, by plan and entry. */
export class SeriesKeys {
  private readonly plans = new Map<number, readonly string[]>();
  // Plans mostly have the same entries, so each text is kept only once.
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

  /** The key of an entry. An entry of an unknown plan has its own series. */
  of(plan: number, entry: number): string {
    return this.plans.get(plan)?.[entry] ?? `${plan}/${entry}`;
  }

  clear(): void {
    this.plans.clear();
    this.texts.clear();
  }
}
