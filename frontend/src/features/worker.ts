import { kWorker as attention } from './attention/worker';
import { kWorker as contributions } from './contributions/worker';
import { kWorker as health } from './health/worker';
import { kWorker as lens } from './lens/worker';
import { kWorker as maps } from './maps/worker';
import { kWorker as passed } from './passed/worker';
import { kWorker as projections } from './projections/worker';
import { kWorker as statistics } from './statistics/worker';
import { kWorker as text } from './text/worker';
import { kWorker as topTokens } from './top_tokens/worker';
import { kWorker as traits } from './traits/worker';
import { kWorker as updates } from './updates/worker';
import type { WorkerFeature } from '../core/worker/worker_feature';

/** The features in the worker's bundle. Within a form, features of few records come before those of all. */
export const kWorkerFeatures: readonly WorkerFeature[] = [
  ...[health, contributions, updates, topTokens, traits],
  ...[attention, maps, passed, statistics, projections, lens, text],
];
