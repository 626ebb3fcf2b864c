import { laterBuilder } from '../../core/store/view';
import type { WorkerFeature } from '../../core/worker/worker_feature';
import { kCompressors } from './compressor';
import type { TopTokensFrame } from './frame';

const kTopTokens = laterBuilder<TopTokensFrame>(
  { kind: 'top_tokens', form: 'top_tokens', fits: () => true },
  async () => ({
    build: (await import('./top_tokens_view')).topTokensView,
    buffersOf: () => [],
  }),
);

/** The worker's part of this feature. */
export const kWorker: WorkerFeature = { compressors: kCompressors, builders: [kTopTokens] };
