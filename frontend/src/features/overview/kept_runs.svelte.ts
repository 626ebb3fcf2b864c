import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import type { Session } from '../../core/session/session';
import type { StepLoss } from '../../core/store/losses';
import {
  type HubError,
  keptSchema,
  type Notification,
  type OtherRunFacts,
  type RecordingFacts,
  type RunFacts,
} from '../../protocol/messages';
import { abandonedLines, ancestorsOf, pastLosses } from './ancestors';
import { kMaxLosses } from './url';

/** The colours of other runs' losses, in the order in which the runs are chosen. */
export const kLossColors = ['--other-1', '--other-2', '--other-3', '--other-4', '--other-5'];

/** The members of the session that `KeptRuns` uses. */
export interface KeptRunsSession extends Pick<Session, 'otherRuns' | 'run' | 'show'> {
  readonly view: Pick<Session['view'], 'lossesOf'>;
  readonly control: Pick<Session['control'], 'carryOut'>;
  readonly link: Pick<Session['link'], 'lossesOf'>;
}

/** The size of this run's recording, and the losses of other runs. */
export class KeptRuns implements Follower {
  size = $state.raw<RecordingFacts | null>(null);
  error = $state.raw<HubError | null>(null);
  private losses = $state.raw<Readonly<Partial<Record<string, readonly StepLoss[]>>>>({});
  /** The progress of each run at the last request of its losses: a run that continues has new losses. */
  private readonly asked: Partial<Record<string, string>> = {};

  private readonly chosen = $derived.by(() =>
    this.session.view.lossesOf.flatMap(
      (id) => this.session.otherRuns.find((each) => each.id === id) ?? [],
    ),
  );
  private readonly ancestors = $derived.by(() =>
    ancestorsOf(this.session.run, this.session.otherRuns),
  );
  /** The losses of the runs that this run continues, up to the steps where each resumed. */
  readonly past = $derived(pastLosses(this.ancestors, this.losses));
  /** The thin lines next to the loss of this run: the chosen runs, and what this run left behind. */
  readonly lines = $derived([
    ...this.chosen.map(({ id, name }) => ({
      label: name,
      color: this.colorOf(id),
      losses: this.losses[id] ?? [],
    })),
    ...abandonedLines(this.ancestors, this.losses),
  ]);

  constructor(private readonly session: KeptRunsSession) {}

  onNotification({ event, params }: Notification): void {
    if (event === 'recording') this.size = params;
  }

  onRun(_run: RunFacts, isAnother: boolean): void {
    if (isAnother) this.size = this.error = null;
  }

  /** Asks for the losses of the chosen runs and of the ancestors, if the hub reported progress since the last request. */
  async update(): Promise<void> {
    const wanted = [...this.chosen, ...this.ancestors.map(({ run }) => run)];
    await Promise.all(
      wanted.map(async (run) => {
        const now = progressOf(run);
        if (this.asked[run.id] === now) return;
        this.asked[run.id] = now;
        const losses = await this.session.link.lossesOf(run.id);
        this.losses = { ...this.losses, [run.id]: losses };
      }),
    );
  }

  isShown(id: string): boolean {
    return this.session.view.lossesOf.includes(id);
  }

  get isFull(): boolean {
    return this.session.view.lossesOf.length >= kMaxLosses;
  }

  colorOf(id: string): string {
    return kLossColors[this.session.view.lossesOf.indexOf(id)] ?? '';
  }

  toggle(id: string): void {
    const { lossesOf } = this.session.view;
    const others = lossesOf.filter((each) => each !== id);
    if (this.isShown(id)) this.session.show({ lossesOf: others });
    else if (!this.isFull) this.session.show({ lossesOf: [...lossesOf, id] });
  }

  /** From now on, the recording keeps all traced data. The hub notifies all viewers. */
  async keep(): Promise<void> {
    const outcome = await this.session.control.carryOut('run.keep', undefined, keptSchema);
    this.error = outcome.ok ? null : outcome.error;
  }
}

function progressOf({ last_step, state }: OtherRunFacts): string {
  return `${last_step}/${state ?? ''}`;
}

export const keptRunsOf = stateOf((session) => new KeptRuns(session));
