import type { Follower } from '../core/registry/feature';
import { stateOf } from '../core/registry/state_of';
import type { Notification, PlanEntry, RunFacts } from '../protocol/messages';
import { type Baseline, BaselineStore } from './baseline_store';

/** The means of projections at the run's start, as the hub's events `projections` state them. */
export class Baselines implements Follower {
  private readonly store = new BaselineStore();
  private version = $state(0);

  /** The baseline of an entry with `mean_over` on a vector; null if no event has stated it. */
  of(entry: PlanEntry, vector: string, layer: number): Baseline | null {
    return this.version < 0 ? null : this.store.of(entry, vector, layer);
  }

  onRun(_: RunFacts, isAnother: boolean): void {
    if (!isAnother) return;
    this.store.clear();
    this.version += 1;
  }

  onNotification({ event, params }: Notification): void {
    if (event !== 'projections') return;
    for (const series of params.series) this.store.add(series);
    this.version += 1;
  }
}

export const baselinesOf = stateOf(() => new Baselines());
