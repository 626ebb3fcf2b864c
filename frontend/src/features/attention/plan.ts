import { type PlanFeature, pointsNamed } from '../../core/registry/plan_feature';
import { formatLayers } from '../../protocol/layers';

const kSlow = 10;

/** The preset of attention. It traces only the middle layer: all layers would be too many bytes. */
export const kPlan: PlanFeature = {
  presetsOf: (run) =>
    pointsNamed(run, ['RawAttentionScore']).map(({ name, first_layer, last_layer }) => {
      const layer = Math.ceil((first_layer + last_layer) / 2);
      const entry = { point: name, every: kSlow, dtype: 'u8' };
      return {
        name: 'Attention of one layer',
        text: `All heads of layer ${layer}, in 8 bits, every ${kSlow} steps`,
        entries: [{ ...entry, layers: formatLayers([layer]), compressor: { kind: 'none' } }],
      };
    }),
};
