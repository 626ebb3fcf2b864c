import { chunk } from './chunks';
import type { PlanCompressor, PlanFeature, Preset, PresetRun } from './plan_feature';
import { features } from './registry';

let kPlans: readonly PlanFeature[] = [];

/** Fetches what the features contribute to the form; it is used only after that. */
export const loadPlans = chunk(async () => {
  kPlans = await Promise.all(features().flatMap(({ plan }) => plan?.() ?? []));
});

export function planCompressor(kind: string): PlanCompressor | undefined {
  return kPlans.map(({ compressors }) => compressors?.[kind]).find((each) => each !== undefined);
}

/** Each of them once, in the order of the features. */
export function planCompressors(): readonly PlanCompressor[] {
  return [...new Set(kPlans.flatMap(({ compressors = {} }) => Object.values(compressors)))];
}

/** What the features know to begin with. */
export function featurePresets(run: PresetRun): readonly Preset[] {
  return kPlans.flatMap((feature) => feature.presetsOf?.(run) ?? []);
}
