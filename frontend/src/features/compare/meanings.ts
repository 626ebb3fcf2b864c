import type { CompressorFacts } from '../../protocol/messages';
import { compressorName } from '../../protocol/record';
import type { FrameBase } from '../../core/store/frames';
import { vectorName } from '../../ui/quantities';

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
  const kind = compressorName(frame.compressor);
  const unknown = `(plan ${frame.plan} of run ${runId})`;
  switch (kind) {
    case 'tile':
      return of === undefined ? `tile ${unknown}` : `the ${of.method ?? 'mean'} of each tile`;
    case 'projection': {
      if (of === undefined) return `projections on vector ${frame.vector ?? 0} ${unknown}`;
      const length = of.normalize === false ? ', not by length' : '';
      return `projections on ${vectorName(frame, of)}${length}`;
    }
    case 'stats':
      if (of === undefined) return `a histogram ${unknown}`;
      return `a histogram ${of.range === undefined ? 'by powers of two' : `from ${of.range.join(' to ')}`}`;
    default:
      return kind;
  }
}
