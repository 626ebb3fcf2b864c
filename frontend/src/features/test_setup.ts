import { loadPlans } from '../core/registry/plan';
import { registerFeatures } from '../core/registry/registry';
import { loadBuilders, registerBuilders } from '../core/store/view';
import { kFeatures } from './page';
import { kWorkerFeatures } from './worker';

// Unit tests know the same features as the program does. They run both sides in one process, which know
// compressors once.
registerFeatures(kFeatures);
for (const { builders } of kWorkerFeatures) registerBuilders(builders);
await Promise.all([loadPlans(), loadBuilders()]);
