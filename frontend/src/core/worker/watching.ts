import type { Notification, RunFacts, RunState } from '../../protocol/messages';

/**
 * Subscribes to the records of the run, but not while the run waits for a viewer: the subscription
 * would start the run, and the user may want to set a plan first.
 */
export class Watching {
  private run: RunFacts | null = null;
  private phase: RunState['phase'] = 'starting';
  private watches = false;

  constructor(private readonly subscribe: () => void) {}

  /** A connection has begun. */
  begin(run: RunFacts | null, { phase }: RunState): void {
    [this.run, this.phase, this.watches] = [run, phase, false];
    this.look();
  }

  note({ event, params }: Notification): void {
    if (event === 'run') this.run = params;
    else if (event === 'state') this.phase = params.phase;
    else return;
    this.look();
  }

  private look(): void {
    if (this.watches || this.run === null) return;
    if (this.phase === 'waiting' || (this.phase === 'starting' && willWait(this.run))) return;
    this.watches = true;
    this.subscribe();
  }
}

/** Whether the run was started with --tensor-tracer-wait. */
function willWait({ configuration = {} }: RunFacts): boolean {
  const given = configuration['tensor-tracer-wait'];
  return given !== undefined && given !== 'false';
}
