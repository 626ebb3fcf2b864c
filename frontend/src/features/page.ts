import type { Feature } from '../core/registry/feature';
import { kAlarms } from './alarms';
import { kAttention } from './attention';
import { kCompare } from './compare';
import { kContributions } from './contributions';
import { kExport } from './export';
import { kHealth } from './health';
import { kInterventions } from './interventions';
import { kLens } from './lens';
import { kMaps } from './maps';
import { kModelMap } from './model_map';
import { kNews } from './news';
import { kOverview } from './overview';
import { kPassed } from './passed';
import { kPlan } from './plan';
import { kProjections } from './projections';
import { kPrompts } from './prompts';
import { kReplay } from './replay';
import { kStatistics } from './statistics';
import { kTensors } from './tensors';
import { kText } from './text';
import { kTopTokens } from './top_tokens';
import { kTraits } from './traits';
import { kUpdates } from './updates';

/** The features of the page, in the order of the tabs, of the tools and of the plan's choices. */
export const kFeatures: readonly Feature[] = [
  ...[kOverview, kModelMap, kTensors, kMaps, kAttention, kPassed, kStatistics, kProjections],
  ...[kText, kLens, kHealth, kContributions, kUpdates, kTopTokens],
  ...[kCompare, kPlan, kInterventions, kPrompts, kTraits, kReplay, kAlarms, kExport, kNews],
];
