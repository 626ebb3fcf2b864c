import type { LayerSizes } from '../../core/registry/feature';
import { compressorNamed } from '../../core/registry/registry';
import type { WatchedEntry } from '../../core/session/watched';
import type { Program } from '../../protocol/interventions';
import type { PointFacts } from '../../protocol/messages';

/** A box of the map: the embedding, a layer, or the head with the final norm. */
export interface Block {
  readonly name: string;
  /** 0 outside the layers. */
  readonly layer: number;
  /** The entries of the plan that trace a point in this box. */
  readonly entries: readonly WatchedEntry[];
  /** Names of the programs in force that write here. */
  readonly programs: readonly string[];
  /** The messages of the alarms that fire here. */
  readonly alarms: readonly string[];
  /** The RMS per token; undefined: it is not measured. */
  readonly size: number | undefined;
  /** The measured point and its step, such as "HiddenStates, step 120". */
  readonly sizeOf: string;
}

/** The data of the boxes. */
export interface ModelFacts {
  readonly layers: number;
  readonly points: readonly PointFacts[];
  readonly watched: readonly WatchedEntry[];
  readonly programs: readonly Program[];
  readonly alarms: readonly LayerAlarm[];
  readonly sizes: PartSizes;
}

export interface LayerAlarm {
  readonly layers: readonly number[];
  readonly message: string;
}

/** The parts of the model that have sizes, each with the places that can give the size, best first. */
const kSizePaths = {
  embedding: ['embedding.output'],
  layer: ['layers[n].output'],
  head: ['final_norm.output', 'logits'],
} as const;
export type Part = keyof typeof kSizePaths;
const kParts = Object.keys(kSizePaths) as Part[];

/** The measured sizes of a part at a step. */
export interface Sizes {
  readonly point: string;
  readonly step: number;
  /** 0 outside the layers. */
  readonly byLayer: LayerSizes;
}

export type PartSizes = Readonly<Partial<Record<Part, Sizes>>>;

/** The part of the model with this point; undefined if the point is in no box, such as the updates. */
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
  const measured = sizes[part];
  const size = measured?.byLayer.get(layer);
  return {
    name,
    layer,
    entries: facts.watched.filter((each) => each.enabled && isHere(each.facts.name, each.layers)),
    programs: programs
      .filter(({ writes }) => writes.some((write) => isHere(write.point, [write.layer])))
      .map((program) => program.name),
    alarms: [
      ...(size === undefined || Number.isFinite(size) ? [] : ['RMS is not finite']),
      ...alarms
        .filter(({ layers }) => part === 'layer' && layers.includes(layer))
        .map(({ message }) => message),
    ],
    size,
    sizeOf: measured === undefined ? '' : `${measured.point}, step ${measured.step}`,
  };
}

/** The entry that a click on a box shows: the shown entry, or else the first entry of the run's own data. */
export function entryToShow(block: Block, shown: WatchedEntry | null): WatchedEntry | undefined {
  const { entries } = block;
  return (
    entries.find(({ name }) => name === shown?.name) ??
    entries.find(({ promptSet }) => promptSet === 0) ??
    entries[0]
  );
}

/** The entry whose statistics give the sizes of a part. For layers, another point is used if necessary. */
export function entryOfSizes(watched: readonly WatchedEntry[], part: Part): WatchedEntry | null {
  const fit = watched.filter(
    ({ enabled, facts, direction, promptSet, compressor }) =>
      enabled &&
      direction === 0 &&
      promptSet === 0 &&
      compressorNamed(compressor.kind)?.statistics?.includes('rms') === true &&
      partOf(facts) === part,
  );
  for (const path of kSizePaths[part]) {
    const found = fit.find(({ facts }) => facts.path === path);
    if (found !== undefined) return found;
  }
  return part === 'layer' ? (fit[0] ?? null) : null;
}

/** The points whose statistics the plan needs in addition, so that every box has a size. */
export function unmeasured(
  points: readonly PointFacts[],
  watched: readonly WatchedEntry[],
): readonly PointFacts[] {
  return kParts.flatMap((part) => {
    const shown = entryOfSizes(watched, part)?.facts.path ?? '';
    const paths: readonly string[] = kSizePaths[part];
    if (paths.includes(shown)) return [];
    const wanted = paths.flatMap((path) => points.find((point) => point.path === path) ?? []);
    return wanted.slice(0, 1);
  });
}
