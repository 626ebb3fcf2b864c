import { parseLayers } from '../../protocol/layers';
import {
  type CompressorFacts,
  type Plan,
  type PlanEntry,
  type PointFacts,
  type RunFacts,
  tokenizerOf,
} from '../../protocol/messages';
import { type Form, formOfPlan, isPlain } from '../store/compressors';

/** An entry of the plan that can be shown. */
export interface WatchedEntry {
  /** Unique in the plan, and mostly the same in other plans, because the address contains it. */
  readonly name: string;
  readonly facts: PointFacts;
  /** The index in the plan. */
  readonly entry: number;
  /** An entry that is not enabled traces nothing; its earlier records can still be shown. */
  readonly enabled: boolean;
  readonly every: number;
  readonly layers: readonly number[];
  readonly phases: readonly string[];
  readonly direction: 0 | 1;
  /** The number of the prompt set; 0 for the run's own data. */
  readonly promptSet: number;
  readonly prompts: readonly string[];
  /** The number of tokens of each prompt; empty: not known, or the run's own data, whose rows are full. */
  readonly lengths: readonly number[];
  /** The tokens of which records have the mean; '' for each token. */
  readonly meanOver: string;
  /** The prompts come together with the responses of the model. */
  readonly hasResponses: boolean;
  readonly compressor: CompressorFacts;
  readonly form: Form;
  readonly firstToken: number;
}

/** The entries whose points have features, in the order of the plan; token ids are not shown alone. */
export function watchedEntries(run: RunFacts | null, plan: Plan | null): readonly WatchedEntry[] {
  const watched: WatchedEntry[] = [];
  const used = new Map<string, number>();
  if (run === null || plan === null) return watched;
  plan.entries.forEach((entry, index) => {
    const facts = run.points.find((point) => point.name === entry.point);
    if (facts === undefined || facts.features === 0) return;
    const name = nameOf(entry, facts);
    const times = (used.get(name) ?? 0) + 1;
    used.set(name, times);
    watched.push(watchedOf(run, entry, facts, index, times === 1 ? name : `${name} #${times}`));
  });
  return watched;
}

function watchedOf(
  run: RunFacts,
  entry: PlanEntry,
  facts: PointFacts,
  index: number,
  name: string,
): WatchedEntry {
  const promptSet = promptSetOf(run, entry.prompts);
  const set = promptSet > 0 ? run.prompt_sets[promptSet - 1] : undefined;
  const compressor = compressorOf(entry, facts);
  const every = Math.max(1, entry.every ?? 1);
  return {
    name,
    facts,
    entry: index,
    enabled: entry.enabled ?? true,
    every: set === undefined ? every : leastCommonMultiple(every, Math.max(1, set.interval)),
    layers: layersOf(entry, facts),
    phases: entry.prompts === undefined ? (entry.phases ?? ['train']) : [],
    direction: entry.direction === 'gradient' ? 1 : 0,
    promptSet,
    prompts: set?.prompts ?? [],
    lengths: entry.responses === true ? [] : lengthsOf(run, set),
    meanOver: entry.mean_over ?? '',
    hasResponses: entry.responses ?? false,
    compressor,
    form: formOfPlan(compressor.kind),
    firstToken: entry.tokens?.[0] ?? 0,
  };
}

function lengthsOf(run: RunFacts, set: RunFacts['prompt_sets'][number] | undefined): number[] {
  if (set?.tokens !== undefined) return set.tokens.map(({ length }) => length);
  if (set === undefined || tokenizerOf(run) !== 'byte') return [];
  return set.prompts.map((prompt) => new TextEncoder().encode(prompt).length);
}

/** The number of a prompt set. Of several with one name: the active set, otherwise the last one. */
function promptSetOf(run: RunFacts, name: string | undefined): number {
  const sets = run.prompt_sets;
  const active = sets.findIndex((set) => set.name === name && !set.removed);
  return (active >= 0 ? active : sets.findLastIndex((set) => set.name === name)) + 1;
}

/** The compressor of an entry; the point's default if the entry names none. */
export function compressorOf(entry: PlanEntry, facts: PointFacts | undefined): CompressorFacts {
  return entry.compressor ?? { kind: defaultKind(facts) };
}

export function defaultKind(facts: PointFacts | undefined): string {
  if (facts === undefined) return 'tile';
  if (facts.compressor !== undefined) return facts.compressor;
  if (facts.features === 0 || facts.parameters !== undefined) return 'none';
  // In an older run: the point has the scores over the vocabulary.
  const isScores = facts.path === 'logits' || facts.formula?.startsWith('output_layer(') === true;
  return isScores ? 'topk' : 'tile';
}

/** "HiddenStates · gradient · probes · stats": all members that differ from the plain values. */
function nameOf(entry: PlanEntry, facts: PointFacts): string {
  const { kind } = compressorOf(entry, facts);
  const plain = isPlain(kind) || kind === defaultKind(facts);
  return [
    entry.point,
    entry.direction === 'gradient' ? 'gradient' : '',
    entry.prompts ?? '',
    entry.mean_over ?? (entry.responses === true ? 'responses' : ''),
    plain ? '' : kind,
  ]
    .filter((part) => part !== '')
    .join(' · ');
}

/** The name of a layer; layer 0 has the name of the point. */
export function layerName(layer: number, point: string, prefix = 'L'): string {
  return layer === 0 ? point : `${prefix}${layer}`;
}

function layersOf(entry: PlanEntry, facts: PointFacts): readonly number[] {
  const { first_layer: first, last_layer: last } = facts;
  const all = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
  const chosen = entry.layers === undefined ? undefined : parseLayers(entry.layers);
  return chosen === undefined ? all : chosen.filter((layer) => layer >= first && layer <= last);
}

/** The shown phase: the wanted phase, if the entry traces it. */
export function phaseOf(phases: readonly string[], wanted: 'train' | 'eval'): 'train' | 'eval' {
  if (phases.includes(wanted) || phases.length === 0) return wanted;
  return phases[0] === 'eval' ? 'eval' : 'train';
}

export function closest(choices: readonly number[], wanted: number): number {
  let best = choices[0] ?? wanted;
  for (const each of choices) if (Math.abs(each - wanted) < Math.abs(best - wanted)) best = each;
  return best;
}

function leastCommonMultiple(a: number, b: number): number {
  let [x, y] = [a, b];
  while (y !== 0) [x, y] = [y, x % y];
  return (a / x) * b;
}
