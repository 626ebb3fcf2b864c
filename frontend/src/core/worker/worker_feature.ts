import { type CompressorKind, registerCompressors } from '../store/compressors';
import { registerBuilders, type ViewBuilder } from '../store/view';

/** A feature's contributions to the worker: the kinds of its records, and the builders of its frames. */
export interface WorkerFeature {
  readonly compressors: readonly CompressorKind[];
  /** The first builder that fits a scene builds its frame. */
  readonly builders: readonly ViewBuilder[];
}

export function registerWorkerFeatures(features: readonly WorkerFeature[]): void {
  for (const { compressors, builders } of features) {
    registerCompressors(compressors);
    registerBuilders(builders);
  }
}
