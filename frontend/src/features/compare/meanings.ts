import type { CompressorFacts } from '../../protocol/messages';
import { compressorName } from '../../core/store/compressors';
import type { FrameBase } from '../../core/store/frames';
import { compressorOfCode } from '../../core/registry/registry';

/** What one side of a comparison holds. */
export interface Held {
  readonly frame: Pick<FrameBase, 'compressor' | 'plan'> & { readonly vector?: number };
  /** Undefined: the plan is not known. */
  readonly of: CompressorFacts | undefined;
  readonly runId: string;
}

/** How two sides of one compressor count differently, if they do. */
export function differenceOf(a: Held, b: Held): string | undefined {
  if (a.frame.compressor !== b.frame.compressor) return undefined;
  const [first, second] = [a, b].map(meaningOf);
  return first === second ? undefined : `A holds ${first}, B ${second}: they have no difference.`;
}

function meaningOf({ frame, of, runId }: Held): string {
  const unknown = `(plan ${frame.plan} of run ${runId})`;
  const said = compressorOfCode(frame.compressor)?.meaningOf?.(frame, of, unknown);
  return said ?? compressorName(frame.compressor);
}
