import {
  type HubError,
  keptSchema,
  type OtherRunFacts,
  type RecordingFacts,
} from '../../protocol/messages';
import type { Controller } from './controller.svelte';
import { kMaxOtherRuns, type ViewState } from './url_state';
import { type StepLoss, withLosses } from '../store/losses';
import type { HubEvent } from '../worker/link_messages';

/** What this part of the page needs of the rest. */
export interface KeptRunsSession {
  readonly control: Pick<Controller, 'carryOut'>;
  readonly link: { askRuns(): void; askLosses(run: string): void };
  readonly view: Pick<ViewState, 'otherRuns'>;
  show(change: Partial<ViewState>): void;
}

/** The colours of other runs' losses, in the order in which the runs are chosen. */
export const kOtherColors = ['--other-1', '--other-2', '--other-3', '--other-4', '--other-5'];

export interface OtherLoss {
  readonly run: OtherRunFacts;
  readonly color: string;
  readonly losses: readonly StepLoss[];
}

/** The size of this run's recording, and the losses of the other runs. */
export class KeptRuns {
  runs = $state.raw<readonly OtherRunFacts[]>([]);
  size = $state.raw<RecordingFacts | null>(null);
  error = $state.raw<HubError | null>(null);
  private losses = $state.raw<Readonly<Record<string, readonly StepLoss[] | undefined>>>({});

  /** What the overview shows of other runs. */
  readonly shown: readonly OtherLoss[] = $derived.by(() =>
    this.session.view.otherRuns.flatMap((id, index) => {
      const run = this.runs.find((each) => each.id === id);
      const losses = this.losses[id];
      return run === undefined || losses === undefined
        ? []
        : [{ run, color: kOtherColors[index], losses }];
    }),
  );

  constructor(private readonly session: KeptRunsSession) {}

  take(event: HubEvent): void {
    if (event.kind === 'losses') {
      const known = this.losses[event.run] ?? [];
      this.losses = { ...this.losses, [event.run]: withLosses(known, event.losses) };
    } else if (event.kind === 'runs') {
      this.runs = event.runs;
      // A run that goes on has more losses than were asked for before.
      for (const id of this.session.view.otherRuns) this.session.link.askLosses(id);
    } else if (event.kind === 'notification' && event.notification.event === 'recording') {
      this.size = event.notification.params;
    }
  }

  /** Runs that began since the page was opened are offered, too. */
  refresh(): void {
    this.session.link.askRuns();
  }

  isShown(id: string): boolean {
    return this.session.view.otherRuns.includes(id);
  }

  get isFull(): boolean {
    return this.session.view.otherRuns.length >= kMaxOtherRuns;
  }

  colorOf(id: string): string {
    return kOtherColors[this.session.view.otherRuns.indexOf(id)] ?? '';
  }

  toggle(id: string): void {
    const { otherRuns } = this.session.view;
    if (this.isShown(id)) {
      this.session.show({ otherRuns: otherRuns.filter((each) => each !== id) });
      return;
    }
    if (this.isFull) return;
    this.session.show({ otherRuns: [...otherRuns, id] });
    this.session.link.askLosses(id);
  }

  async keep(): Promise<void> {
    const outcome = await this.session.control.carryOut('run.keep', undefined, keptSchema);
    this.error = outcome.ok ? null : outcome.error;
    if (outcome.ok) this.size = { bytes: this.size?.bytes ?? 0, max_bytes: 0 };
  }
}
