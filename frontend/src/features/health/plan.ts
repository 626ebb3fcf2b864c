import {
  type PlanFeature,
  pointsNamed,
  type Preset,
  type PresetRun,
} from '../../core/registry/plan_feature';
import { activePrompts, type PlanEntry } from '../../protocol/messages';
import { kMeasures } from './measures';

const kSlow = 10;

function presetsOf(run: PresetRun): readonly Preset[] {
  const measures = pointsNamed(run, Object.keys(kMeasures)).map(({ name: point }): PlanEntry => ({
    point,
    every: kSlow,
    compressor: { kind: 'none' },
  }));
  const sets = activePrompts(run).map(({ name }) => name);
  const ofPrompts = sets.flatMap((prompts) =>
    measures.map((entry) => ({ ...entry, prompts, rows: 0 })),
  );
  return [
    {
      name: 'Attention health',
      text: `Entropy, largest score and share of the first token of each head, every ${kSlow} steps`,
      entries: [...measures, ...ofPrompts],
    },
  ];
}

/** The presets of this feature. */
export const kPlan: PlanFeature = { presetsOf };
