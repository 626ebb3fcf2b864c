import type { RecordHeader } from '../../protocol/record';

/** A rank that sends records, with facts from the headers of its records. */
export interface LeaderFacts {
  readonly tensor: number;
  readonly pipeline: number;
  readonly data: number;
  /** The newest step of its records; `spacing` is null if only one step of the plan is known yet. */
  readonly step: number;
  readonly spacing: number | null;
  /** Records that did not arrive since the page connected: dropped, or replaced by newer records. */
  readonly missed: number;
  /**
   * The time from the creation of its newest record to its arrival, by the clocks of both machines.
   * Null if no record was created since the page connected.
   */
  readonly delayMs: number | null;
}

interface Leader {
  plan: number;
  step: number;
  spacing: number;
  delayMs: number | null;
  /** The first counted and the highest sequence number, and the number of records that arrived. */
  first: number;
  last: number;
  came: number;
}

/** Follows the leaders of a run by their records. */
export class Leaders {
  private readonly leaders = new Map<string, Leader>();
  /** A new viewer gets the latest past records. Gaps in them are not drops. */
  private past = 0;
  private newestPlan = 0;

  /** A connection began at a step. */
  begin(step: number): void {
    // Some records of the current step may have been replaced already.
    this.past = step + 1;
    for (const leader of this.leaders.values()) leader.came = 0;
  }

  clear(): void {
    this.leaders.clear();
    this.past = 0;
    this.newestPlan = 0;
  }

  /** The leaders that send records of the newest plan. The plan may have no entries for the others. */
  get all(): readonly LeaderFacts[] {
    return [...this.leaders]
      .filter(([, { plan }]) => plan === this.newestPlan)
      .map(([key, { step, spacing, delayMs, first, last, came }]) => {
        const [pipeline, data, tensor] = key.split('/').map(Number);
        const missed = came === 0 ? 0 : Math.max(0, last - first + 1 - came);
        return {
          ...{ tensor, pipeline, data, step, delayMs, missed },
          spacing: Number.isFinite(spacing) ? spacing : null,
        };
      })
      .sort((a, b) => a.pipeline - b.pipeline || a.data - b.data || a.tensor - b.tensor);
  }

  /** A record arrived at the time `now`. */
  take(header: RecordHeader, now: number): void {
    const leader = this.leaderOf(header);
    const { plan, step, sequence, time } = header;
    const isNew = step > this.past;
    this.newestPlan = Math.max(this.newestPlan, plan);
    if (plan > leader.plan) Object.assign(leader, { plan, step: 0, spacing: Infinity });
    if (plan === leader.plan && step >= leader.step) {
      if (leader.step > 0 && step > leader.step) {
        leader.spacing = Math.min(leader.spacing, step - leader.step);
      }
      leader.step = step;
      if (isNew) leader.delayMs = now - time / 1e6;
    }
    if (!isNew) return;
    leader.first = leader.came === 0 ? sequence : Math.min(leader.first, sequence);
    leader.last = leader.came === 0 ? sequence : Math.max(leader.last, sequence);
    leader.came += 1;
  }

  private leaderOf({ pipelineRank, dataRank, tensorRank }: RecordHeader): Leader {
    const key = [pipelineRank, dataRank, tensorRank].join('/');
    const known = this.leaders.get(key);
    if (known !== undefined) return known;
    const counts = { first: 0, last: 0, came: 0 };
    const made = { plan: 0, step: 0, spacing: Infinity, delayMs: null, ...counts };
    this.leaders.set(key, made);
    return made;
  }
}
