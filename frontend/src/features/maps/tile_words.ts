import type { CompressorFacts } from '../../protocol/messages';
import type { Recorded } from '../../core/registry/feature';
import { compressorName } from '../../core/store/compressors';
import type { FrameBase, ViewQuery } from '../../core/store/frames';

/** What stands in a cell of a map by tiles: "tile mean". */
export function tileName(
  { plan }: Pick<Recorded, 'plan'>,
  of: CompressorFacts | undefined,
): string {
  return of === undefined ? `tile (plan ${plan})` : `tile ${of.method ?? 'mean'}`;
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

/** How a plan reduces a tile. */
export function methodName(method = 'mean'): string {
  return method === 'absmax' ? aggregateName('absmax') : method;
}
