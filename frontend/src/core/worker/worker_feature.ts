import { type CompressorKind, registerCompressors } from '../store/compressors';
import { registerBuilders, type ViewBuilder } from '../store/view';

/** What a feature contributes to the worker: how its records are known, and how its frames are built. */
export interface WorkerFeature {
  readonly compressors: readonly CompressorKind[];
  /** The first that fits a scene builds its frame. */
  readonly builders: readonly ViewBuilder[];
}

export function registerWorkerFeatures(features: readonly WorkerFeature[]): void {
  for (const { compressors, builders } of features) {
    registerCompressors(compressors);
    registerBuilders(builders);
  }
}
