import type { CompressorFacts } from '../../protocol/messages';
import type { Recorded } from '../../core/registry/feature';
import { compressorName } from '../../core/store/compressors';
import type { FrameBase, ViewQuery } from '../../core/store/frames';

/** The name of the number in a cell of tiles, such as "tile mean". */
export function tileName(
  { plan }: Pick<Recorded, 'plan'>,
  of: CompressorFacts | undefined,
): string {
  return of === undefined ? `tile (plan ${plan})` : `tile ${of.method ?? 'mean'}`;
}

/** The name of the layer map's reduction over a token's tiles or columns, such as "mean over tiles". */
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

/** The name of a plan's method to reduce a tile. */
export function methodName(method = 'mean'): string {
  return method === 'absmax' ? aggregateName('absmax') : method;
}
