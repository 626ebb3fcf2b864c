import type { CompressorFacts } from '../protocol/messages';
import { compressorName, kAttentionFlag, kLogitsFlag } from '../protocol/record';
import type { FrameBase, ViewQuery } from '../store/frames';

// What the page's numbers are, in the words of its legends, titles and files.

type Place = Pick<ViewQuery, 'point' | 'direction'>;
type Recorded = Pick<FrameBase, 'compressor'> & {
  readonly query: Place;
  /** Of a projection. */
  readonly vector?: number;
};

/** The numbers of a point, as the model has them. */
export function numbersOf({ point, direction }: Place): string {
  if (direction === 1) return 'gradient of the loss';
  if (point === kAttentionFlag) return 'attention probability';
  return point === kLogitsFlag ? 'logit' : 'activation';
}

/** The numbers of a record: "activation, mean over tile". `of`: the entry's compressor. */
export function quantityOf(
  { query, compressor, vector = 0 }: Recorded,
  of: CompressorFacts | undefined,
): string {
  const numbers = numbersOf(query);
  const name = compressorName(compressor);
  if (name === 'tile') return `${numbers}, ${methodName(of?.method)} over tile`;
  if (name !== 'projection') return numbers;
  const along = of?.vectors?.[vector] ?? `vector ${vector}`;
  return `${numbers} ${of?.normalize === false ? '·' : 'along'} ${along}`;
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

export function lossUnit(tokenizer: string): string {
  return tokenizer === 'byte' ? 'nats/byte' : 'nats/token';
}

function methodName(method = 'mean'): string {
  return method === 'absmax' ? aggregateName('absmax') : method;
}
