import {
  type PlanFeature,
  pointsNamed,
  type Preset,
  type PresetRun,
} from '../../core/registry/plan_feature';
import { activePrompts, type PlanEntry } from '../../protocol/messages';
import { kLensPoint } from './lens_point';

const kSlow = 10;
const kTokens = 64;

function presetsOf(run: PresetRun): readonly Preset[] {
  const lens = pointsNamed(run, [kLensPoint]).map(({ name: point, features }) => ({
    point,
    every: kSlow,
    compressor: { kind: 'topk', k: Math.min(10, features) },
  }));
  const tokens = Math.min(kTokens, run.model.seq_length);
  const ofPrompts = activePrompts(run).flatMap(({ name: prompts }) =>
    lens.map((entry): PlanEntry => ({ ...entry, prompts, rows: 0 })),
  );
  return [
    {
      name: 'Logit lens of the prompts',
      text: `The prediction of each layer, every ${kSlow} steps`,
      entries: ofPrompts,
    },
    {
      name: 'Logit lens of the batch',
      text: `The prediction of each layer for the first ${tokens} tokens of the training batch`,
      entries: lens.map((entry): PlanEntry => ({ ...entry, tokens: [0, tokens] })),
    },
  ];
}

/** The presets of this feature. */
export const kPlan: PlanFeature = { presetsOf };
