import type { CompressorFacts } from '../../protocol/messages';
import type { Recorded } from '../../core/registry/feature';
import { barsUnit, rangeOf } from '../../ui/charts/bars';
import { numbersOf } from '../../ui/quantities';

/** The unit of a record's histograms. */
export function countsOf(
  { query, plan }: Pick<Recorded, 'plan' | 'query'>,
  of: CompressorFacts | undefined,
): string {
  return of === undefined ? `count, stats (plan ${plan})` : barsUnit(numbersOf(query), rangeOf(of));
}
