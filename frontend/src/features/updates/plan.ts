import {
  type PlanFeature,
  pointsNamed,
  type Preset,
  type PresetRun,
} from '../../core/registry/plan_feature';
import { kUpdatesPoint } from './point';

const kSlow = 10;

function presetsOf(run: PresetRun): readonly Preset[] {
  return [
    {
      name: 'Weights, gradients, updates',
      text: `Norms, update-to-weight ratio and Adam moments of each parameter, every ${kSlow} steps`,
      entries: pointsNamed(run, [kUpdatesPoint]).map(({ name: point }) => ({
        ...{ point, every: kSlow, compressor: { kind: 'none' } },
      })),
    },
  ];
}

/** The preset of this feature. */
export const kPlan: PlanFeature = { presetsOf };
