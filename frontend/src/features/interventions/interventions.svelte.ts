import {
  type Program,
  programAnswerSchema,
  removeAnswerSchema,
  setAnswerSchema,
} from '../../protocol/interventions';
import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import type { Notification, RunFacts } from '../../protocol/messages';
import { type Counters, InterventionStore } from './intervention_store';
import type { Controller, Outcome } from '../../core/session/controller.svelte';

export interface ApplyOptions {
  readonly name: string;
  readonly program: unknown;
  readonly parameters: Readonly<Record<string, number>>;
  /** The program is in force for this number of steps; null: until it is reverted. */
  readonly ttl: number | null;
  readonly keep: boolean;
}

export interface Acknowledged {
  readonly value: number;
  readonly step: number;
  readonly ranks: number;
}

/** The reactive state of the programs in force, and the requests that change them. */
export class Interventions implements Follower {
  private readonly store = new InterventionStore();
  private version = $state(0);
  readonly programs = $derived.by(() => (this.version < 0 ? [] : this.store.programs));
  readonly saved = $derived.by(() => (this.version < 0 ? [] : this.store.saved));
  readonly savesLeftOut = $derived.by(() => this.version >= 0 && this.store.isFull);

  constructor(private readonly control: Controller) {}

  countersOf(name: string): Counters | null {
    return this.version < 0 ? null : this.store.countersOf(name);
  }

  clear(): void {
    this.store.clear();
    this.version += 1;
  }

  inForce(programs: readonly Program[]): void {
    this.store.inForce(programs);
    this.version += 1;
  }

  onRun({ interventions }: RunFacts, isAnother: boolean): void {
    if (isAnother) this.clear();
    this.inForce(interventions ?? []);
  }

  onNotification(notification: Notification): void {
    switch (notification.event) {
      case 'interventions':
        this.store.inForce(notification.params.programs);
        break;
      case 'applied':
        this.store.applied(notification.params);
        break;
      case 'saved':
        this.store.took(notification.params);
        break;
      default:
        return;
    }
    this.version += 1;
  }

  apply(
    options: ApplyOptions,
  ): Promise<Outcome<{ readonly step: number; readonly ranks: number }>> {
    const { ttl, ...params } = options;
    const asked = ttl === null ? params : { ...params, ttl };
    return this.control.carryOut('intervention.apply', asked, programAnswerSchema);
  }

  /** The slider shows the error. */
  async set(name: string, parameter: string, value: number): Promise<Outcome<Acknowledged>> {
    const params = { name, parameter, value };
    const outcome = await this.control.adjust('intervention.set', params, setAnswerSchema);
    if (!outcome.ok) return outcome;
    this.store.acknowledge(name, parameter, outcome.value.value);
    this.version += 1;
    return outcome;
  }

  /** Removes the program `name`, or all programs if there is no name. */
  async revert(name?: string): Promise<void> {
    const { control } = this;
    const params = name === undefined ? {} : { name };
    const outcome = await control.carryOut('intervention.remove', params, removeAnswerSchema);
    control.error = outcome.ok ? null : outcome.error;
    if (!outcome.ok) return;
    const { step, ranks, removed } = outcome.value;
    control.notice =
      removed.length === 0
        ? `No program was in force at step ${step}`
        : `Reverted ${removed.join(', ')} from step ${step} on (${control.ranksText(ranks)})`;
  }
}

export const interventionsOf = stateOf(({ control }) => new Interventions(control));
