import type { HubError } from '../../protocol/messages';
import type { Acknowledged, Interventions } from './interventions.svelte';
import { LatestSender } from '../../core/session/latest_sender';

// The hub accepts 100 messages per second from a viewer.
const kPauseMs = 50;

/** The slider of a program's parameter. While it moves, a newer value replaces a value that waits. */
export class Dial {
  /** The chosen value, until it is acknowledged or refused. */
  wanted = $state<number | null>(null);
  acknowledged = $state.raw<Acknowledged | null>(null);
  error = $state.raw<HubError | null>(null);

  private readonly sender = new LatestSender((value: number) => this.send(value), kPauseMs);

  constructor(
    private readonly interventions: Pick<Interventions, 'set'>,
    private readonly program: string,
    private readonly parameter: string,
  ) {}

  async move(value: number): Promise<void> {
    this.wanted = value;
    await this.sender.push(value);
    this.wanted = null;
  }

  private async send(value: number): Promise<void> {
    const outcome = await this.interventions.set(this.program, this.parameter, value);
    if (outcome.ok) {
      this.acknowledged = outcome.value;
      this.error = null;
    } else if (outcome.error.code !== 'superseded') {
      this.error = outcome.error;
    }
  }
}
