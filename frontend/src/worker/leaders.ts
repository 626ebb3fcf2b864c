import type { RecordHeader } from '../protocol/record';

/** A rank that sends records, as their headers tell of it. */
export interface LeaderFacts {
  readonly tensor: number;
  readonly pipeline: number;
  readonly data: number;
  /** The newest step that it sent something of, and the fewest between two of these. */
  readonly step: number;
  readonly spacing: number;
  /** Records that did not get here since the page connected: dropped, or replaced by newer ones. */
  readonly missed: number;
  /** From the making of its newest record to its coming here, by the clocks of both machines. */
  readonly delayMs: number;
}

interface Leader {
  plan: number;
  step: number;
  spacing: number;
  delayMs: number;
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

  /** A connection began at a step. */
  begin(step: number): void {
    // Of the step in progress some may have been replaced already.
    this.past = step + 1;
    for (const leader of this.leaders.values()) leader.came = 0;
  }

  clear(): void {
    this.leaders.clear();
  }

  get all(): readonly LeaderFacts[] {
    return [...this.leaders]
      .map(([key, { step, spacing, delayMs, first, last, came }]) => {
        const [pipeline, data, tensor] = key.split('/').map(Number);
        const missed = came === 0 ? 0 : last - first + 1 - came;
        return {
          ...{ tensor, pipeline, data, step, delayMs, missed },
          spacing: Number.isFinite(spacing) ? spacing : 1,
        };
      })
      .sort((a, b) => a.pipeline - b.pipeline || a.data - b.data || a.tensor - b.tensor);
  }

  /** A record came at `now`. */
  take(header: RecordHeader, now: number): void {
    const leader = this.leaderOf(header);
    const { plan, step, sequence, time } = header;
    if (plan !== leader.plan) {
      leader.plan = plan;
      leader.spacing = Infinity;
    }
    if (step >= leader.step) {
      if (leader.step > 0 && step > leader.step) {
        leader.spacing = Math.min(leader.spacing, step - leader.step);
      }
      leader.step = step;
      leader.delayMs = now - time / 1e6;
    }
    if (step <= this.past) return;
    leader.first = leader.came === 0 ? sequence : Math.min(leader.first, sequence);
    leader.last = leader.came === 0 ? sequence : Math.max(leader.last, sequence);
    leader.came += 1;
  }

  private leaderOf({ pipelineRank, dataRank, tensorRank }: RecordHeader): Leader {
    const key = [pipelineRank, dataRank, tensorRank].join('/');
    const known = this.leaders.get(key);
    if (known !== undefined) return known;
    const made = { plan: 0, step: 0, spacing: Infinity, delayMs: 0, first: 0, last: 0, came: 0 };
    this.leaders.set(key, made);
    return made;
  }
}
