import { formatRange } from '../base/format';
import { barsUnit, rangeOf } from './charts/bars';
import { kAttentionPoint, kLogitsPoint, type CompressorFacts } from '../protocol/messages';
import { compressorName } from '../protocol/record';
import { type FrameBase, kMeanHead, type ViewQuery } from '../core/store/frames';

// What the page's numbers are, in the words of its legends, titles and files.

type Place = Pick<ViewQuery, 'pointName' | 'direction'>;
type Recorded = Pick<FrameBase, 'compressor' | 'plan'> & {
  readonly query: Place;
  /** Of a projection. */
  readonly vector?: number;
};

/** The numbers of a point, as the model has them. */
export function numbersOf({ pointName, direction }: Place): string {
  if (direction === 1) return 'gradient of the loss';
  if (pointName === kAttentionPoint) return 'attention probability';
  return pointName === kLogitsPoint ? 'logit' : 'activation';
}

/**
 * The numbers of a record: "activation, mean over tile". `of`: the entry's compressor; undefined
 * where its plan is not known.
 */
export function quantityOf(frame: Recorded, of: CompressorFacts | undefined): string {
  const numbers = numbersOf(frame.query);
  const name = compressorName(frame.compressor);
  if (name !== 'tile' && name !== 'projection') return numbers;
  if (of === undefined) return `${numbers}, ${name} (plan ${frame.plan})`;
  if (name === 'tile') return `${numbers}, ${methodName(of.method)} over tile`;
  return `${numbers} ${of.normalize === false ? '·' : 'along'} ${vectorName(frame, of)}`;
}

export function vectorName(
  { plan, vector = 0 }: Pick<Recorded, 'plan' | 'vector'>,
  of: CompressorFacts | undefined,
): string {
  const number = `vector ${vector}`;
  return of === undefined ? `${number} (plan ${plan})` : (of.vectors?.[vector] ?? number);
}

/** What stands in a cell of a map by tiles: "tile mean". */
export function tileName(
  { plan }: Pick<Recorded, 'plan'>,
  of: CompressorFacts | undefined,
): string {
  return of === undefined ? `tile (plan ${plan})` : `tile ${of.method ?? 'mean'}`;
}

/** Which of `width` columns tiles stand for, from the first to the last of them: "12–15". */
export function tileColumns(width: number, tiles: number, first: number, last = first): string {
  const startOf = (tile: number): number => Math.floor((tile * width) / tiles);
  return formatRange(startOf(first), startOf(last + 1) - 1);
}

/** What the histograms of a record count. */
export function countsOf(
  { query, plan }: Pick<Recorded, 'plan' | 'query'>,
  of: CompressorFacts | undefined,
): string {
  return of === undefined ? `count, stats (plan ${plan})` : barsUnit(numbersOf(query), rangeOf(of));
}

/** How a layer map makes one number of a token's many: "mean over tiles". */
export function aggregateOf(
  { compressor }: Pick<FrameBase, 'compressor'>,
  aggregate: ViewQuery['aggregate'],
): string {
  const unit = compressorName(compressor) === 'tile' ? 'tile' : 'column';
  return `${aggregateName(aggregate)} over ${unit}s`;
}

export function aggregateName(aggregate: ViewQuery['aggregate']): string {
  return aggregate === 'mean' ? 'mean' : 'largest |x|';
}

export function headName(head: number): string {
  return head === kMeanHead ? 'average of the heads' : `head ${head}`;
}

export function lossUnit(tokenizer: string): string {
  return tokenizer === 'byte' ? 'nats/byte' : 'nats/token';
}

function methodName(method = 'mean'): string {
  return method === 'absmax' ? aggregateName('absmax') : method;
}
