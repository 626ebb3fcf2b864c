import { chunk } from './chunks';
import type { PlanCompressor, PlanFeature, Preset, PresetRun } from './plan_feature';
import { features } from './registry';

let kPlans: readonly PlanFeature[] = [];

/** Loads the features' parts of the plan's form. It must finish before the other functions are used. */
export const loadPlans = chunk(async () => {
  kPlans = await Promise.all(features().flatMap(({ plan }) => plan?.() ?? []));
});

export function planCompressor(kind: string): PlanCompressor | undefined {
  return kPlans.map(({ compressors }) => compressors?.[kind]).find((each) => each !== undefined);
}

/** Each compressor once, in the order of the features. */
export function planCompressors(): readonly PlanCompressor[] {
  return [...new Set(kPlans.flatMap(({ compressors = {} }) => Object.values(compressors)))];
}

/** The plans that the features offer as a start. */
export function featurePresets(run: PresetRun): readonly Preset[] {
  return kPlans.flatMap((feature) => feature.presetsOf?.(run) ?? []);
}
