import type { ExportArray } from '../../core/registry/files';
import type { StepFacts } from '../../protocol/messages';

/** The scalars of a step that a file contains. */
const kScalars = ['loss', 'valid_loss', 'grad_norm', 'lr', 'tokens_per_second'] as const;

/** The scalars as they were received; NaN if a step has no value. `units` has the unit of each scalar. */
export function scalarArrays(
  facts: readonly StepFacts[],
  units: Readonly<Record<(typeof kScalars)[number], string>>,
): readonly ExportArray[] {
  if (facts.length === 0) return [];
  const axes = [{ name: 'step', labels: facts.map(({ step }) => step) }];
  return kScalars.map((name) => ({
    name,
    text: `${units[name]}, by step`,
    axes,
    shape: [facts.length],
    data: Float64Array.from(facts, (of) => of[name] ?? Number.NaN),
  }));
}
