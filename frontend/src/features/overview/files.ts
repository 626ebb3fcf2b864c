import type { Exported } from '../../core/registry/files';
import type { Session } from '../../core/session/session';
import { type CurveName, kCurves, unitOf } from '../../ui/charts/curves';
import { fileName, runFacts, stepsText } from '../../ui/file_facts';
import { scalarArrays } from './scalar_arrays';

/** The curves up to the last shown step. */
export function exportedCurves(session: Session): Promise<Exported> {
  const scalars = session.scalars();
  const steps = scalars.map(({ step }) => step);
  const unit = (curve: CurveName): string => unitOf(kCurves[curve], session.tokenizer);
  const units = {
    ...{ loss: unit('loss'), valid_loss: unit('loss'), grad_norm: unit('grad') },
    ...{ lr: unit('rate'), tokens_per_second: unit('speed') },
  };
  return Promise.resolve({
    name: fileName(session, 'curves'),
    title: `Curves to step ${steps.at(-1) ?? 0}`,
    facts: { ...runFacts(session), steps: stepsText(steps, session.series.stride) },
    arrays: scalarArrays(scalars, units),
  });
}
