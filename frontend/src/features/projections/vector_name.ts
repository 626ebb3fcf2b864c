import type { CompressorFacts } from '../../protocol/messages';
import type { Recorded } from '../../core/registry/feature';

/** The name of a record's vector. `of` is undefined if the plan is not known. */
export function vectorName(
  { plan, vector = 0 }: Pick<Recorded, 'plan' | 'vector'>,
  of: CompressorFacts | undefined,
): string {
  const number = `vector ${vector}`;
  return of === undefined ? `${number} (plan ${plan})` : (of.vectors?.[vector] ?? number);
}
