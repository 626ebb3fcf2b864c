import { kWorker as attention } from './attention/worker';
import { kWorker as maps } from './maps/worker';
import { kWorker as passed } from './passed/worker';
import { kWorker as projections } from './projections/worker';
import { kWorker as statistics } from './statistics/worker';
import { kWorker as text } from './text/worker';
import type { WorkerFeature } from '../core/worker/worker_feature';

/** The features that the worker's bundle holds. Attention's maps are told from others before these. */
export const kWorkerFeatures: readonly WorkerFeature[] = [
  ...[attention, maps, passed, statistics, projections, text],
];
