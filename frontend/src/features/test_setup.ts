import { loadPlans } from '../core/registry/plan';
import { registerFeatures } from '../core/registry/registry';
import { loadBuilders, registerBuilders } from '../core/store/view';
import { kFeatures } from './page';
import { kWorkerFeatures } from './worker';

// Unit tests use the same features as the program. They run the page and the worker in one process,
// in which the compressors are registered once.
registerFeatures(kFeatures);
for (const { builders } of kWorkerFeatures) registerBuilders(builders);
await Promise.all([loadPlans(), loadBuilders()]);
