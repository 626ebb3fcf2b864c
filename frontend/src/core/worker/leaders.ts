import type { RecordHeader } from '../../protocol/record';

/** A rank that sends records, as their headers tell of it. */
export interface LeaderFacts {
  readonly tensor: number;
  readonly pipeline: number;
  readonly data: number;
  /** The newest step that it sent something of; null: only one step of the plan is known yet. */
  readonly step: number;
  readonly spacing: number | null;
  /** Records that did not get here since the page connected: dropped, or replaced by newer ones. */
  readonly missed: number;
  /**
   * From the making of its newest record to its coming here, by the clocks of both machines; null:
   * none was made since the page connected.
   */
  readonly delayMs: number | null;
}

interface Leader {
  plan: number;
  step: number;
  spacing: number;
  delayMs: number | null;
  /** Sequence numbers from the first that counts to the highest, and how many of them came. */
  first: number;
  last: number;
  came: number;
}

/** Follows the leaders of a run by what they send. */
export class Leaders {
  private readonly leaders = new Map<string, Leader>();
  /** A late viewer is sent the latest of the past: gaps in it are no drops. */
  private past = 0;
  private newestPlan = 0;

  /** A connection began at a step. */
  begin(step: number): void {
    // Of the step in progress some may have been replaced already.
    this.past = step + 1;
    for (const leader of this.leaders.values()) leader.came = 0;
  }

  clear(): void {
    this.leaders.clear();
    this.past = 0;
    this.newestPlan = 0;
  }

  /** Those that send by the newest plan: of the others it may ask nothing any more. */
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

  /** A record came at `now`. */
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
