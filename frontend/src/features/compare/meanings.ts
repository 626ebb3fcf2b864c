import type { CompressorFacts } from '../../protocol/messages';
import { compressorName } from '../../core/store/compressors';
import type { FrameBase } from '../../core/store/frames';
import { compressorOfCode } from '../../core/registry/registry';

/** One side of a comparison: its frame, its compressor and its run. */
export interface Held {
  readonly frame: Pick<FrameBase, 'compressor' | 'plan'> & { readonly vector?: number };
  /** Undefined: the plan is not known. */
  readonly of: CompressorFacts | undefined;
  readonly runId: string;
}

/** The difference in meaning of two sides with the same compressor; undefined if both mean the same. */
export function differenceOf(a: Held, b: Held): string | undefined {
  if (a.frame.compressor !== b.frame.compressor) return undefined;
  const [first, second] = [a, b].map(meaningOf);
  return first === second
    ? undefined
    : `A has ${first}, B has ${second}: they cannot be subtracted.`;
}

function meaningOf({ frame, of, runId }: Held): string {
  const unknown = `(plan ${frame.plan} of run ${runId})`;
  const said = compressorOfCode(frame.compressor)?.meaningOf?.(frame, of, unknown);
  return said ?? compressorName(frame.compressor);
}
