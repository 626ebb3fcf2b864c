import type { LayerSizes } from '../../core/registry/feature';
import type { WatchedEntry } from '../../core/session/watched';
import type { Program } from '../../protocol/interventions';
import type { PointFacts } from '../../protocol/messages';

/** A box of the map: the embedding, a layer, or the head with the final norm. */
export interface Block {
  readonly name: string;
  /** 0 outside the layers. */
  readonly layer: number;
  /** The entries of the plan that take something here. */
  readonly entries: readonly WatchedEntry[];
  /** Names of the programs in force that write here. */
  readonly programs: readonly string[];
  /** What the alarms that fire here say. */
  readonly alarms: readonly string[];
  readonly size: number | undefined;
}

/** What the boxes are made of. */
export interface ModelFacts {
  readonly layers: number;
  readonly points: readonly PointFacts[];
  readonly watched: readonly WatchedEntry[];
  readonly programs: readonly Program[];
  readonly alarms: readonly LayerAlarm[];
  readonly sizes: LayerSizes | null;
}

export interface LayerAlarm {
  readonly layers: readonly number[];
  readonly message: string;
}

type Part = 'embedding' | 'layer' | 'head';

/** Where a point stands in the model; undefined for what belongs to no box, such as the updates. */
export function partOf({
  path = '',
  first_layer: first,
}: Pick<PointFacts, 'path' | 'first_layer'>): Part | undefined {
  if (first > 0) return 'layer';
  if (/^(embedding|tokens)\b/.test(path)) return 'embedding';
  return /^(final_norm|logits)\b/.test(path) ? 'head' : undefined;
}

/** The boxes in the order of the forward. */
export function blocksOf(facts: ModelFacts): readonly Block[] {
  const layers = Array.from({ length: facts.layers }, (_, i) => i + 1);
  return [
    blockOf(facts, 'embedding', 'Embedding', 0),
    ...layers.map((layer) => blockOf(facts, 'layer', `Layer ${layer}`, layer)),
    blockOf(facts, 'head', 'Head', 0),
  ];
}

function blockOf(facts: ModelFacts, part: Part, name: string, layer: number): Block {
  const { points, programs, alarms, sizes } = facts;
  const parts = new Map(points.map((point) => [point.name, partOf(point)]));
  const isHere = (point: string, layers: readonly number[]): boolean =>
    parts.get(point) === part && (part !== 'layer' || layers.includes(layer));
  const size = part === 'layer' ? sizes?.byLayer.get(layer) : undefined;
  return {
    name,
    layer,
    entries: facts.watched.filter((each) => each.enabled && isHere(each.facts.name, each.layers)),
    programs: programs
      .filter(({ writes }) => writes.some((write) => isHere(write.point, [write.layer])))
      .map((program) => program.name),
    alarms: [
      ...(size === undefined || Number.isFinite(size)
        ? []
        : [`${sizes?.text ?? ''} is not finite`]),
      ...alarms
        .filter(({ layers }) => part === 'layer' && layers.includes(layer))
        .map(({ message }) => message),
    ],
    size,
  };
}

/** What a click on a box shows: the entry that is shown already, or else the first of the run's own data. */
export function entryToShow(block: Block, shown: WatchedEntry | null): WatchedEntry | undefined {
  const { entries } = block;
  return (
    entries.find(({ name }) => name === shown?.name) ??
    entries.find(({ promptSet }) => promptSet === 0) ??
    entries[0]
  );
}

/** The entry whose sizes the map draws: statistics of the layers' outputs where the plan has them. */
export function entryOfSizes(watched: readonly WatchedEntry[]): WatchedEntry | null {
  const fit = watched.filter(
    ({ enabled, facts, direction, promptSet }) =>
      enabled && facts.first_layer > 0 && direction === 0 && promptSet === 0,
  );
  const isOutput = ({ facts }: WatchedEntry): boolean => facts.path === 'layers[n].output';
  const isStats = ({ compressor }: WatchedEntry): boolean => compressor.kind === 'stats';
  return (
    fit.find((each) => isStats(each) && isOutput(each)) ??
    fit.find(isStats) ??
    fit.find(isOutput) ??
    fit[0] ??
    null
  );
}
