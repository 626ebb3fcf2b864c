import {
  type PlanFeature,
  pointsNamed,
  type Preset,
  type PresetRun,
} from '../../core/registry/plan_feature';
import type { PlanEntry } from '../../protocol/messages';
import { kContributionPoints } from './points';

const kSlow = 10;

function presetsOf(run: PresetRun): readonly Preset[] {
  const entries = pointsNamed(run, Object.keys(kContributionPoints)).map(
    ({ name: point }): PlanEntry => ({ point, every: kSlow, compressor: { kind: 'none' } }),
  );
  return [
    {
      name: 'Residual contributions',
      text: `Contributions of attention and MLP in each layer: norm and ratio, every ${kSlow} steps`,
      entries,
    },
  ];
}

/** The presets of this feature. */
export const kPlan: PlanFeature = { presetsOf };
