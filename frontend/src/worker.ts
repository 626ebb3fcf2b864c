import { startHubWorker } from './core/worker/hub_worker';
import { registerWorkerFeatures } from './core/worker/worker_feature';
import { kWorkerFeatures } from './features/worker';

// The entry of the worker's bundle.

registerWorkerFeatures(kWorkerFeatures);
startHubWorker();
