import type { AuditLine, Hello, Notification } from '../../protocol/messages';
import { EventStore } from '../store/event_store';

/** The events of the run as reactive state. */
export class RunEvents {
  private readonly store = new EventStore();
  private version = $state(0);
  readonly all = $derived.by(() => (this.version < 0 ? [] : this.store.all));

  greeted({ state, control, run }: Hello): void {
    this.store.greeted(state, control, run);
  }

  add(notification: Notification, step: number): void {
    if (this.store.add(notification, step, Date.now())) this.version += 1;
  }

  merge(lines: readonly AuditLine[]): void {
    this.store.merge(lines);
    this.version += 1;
  }

  clear(): void {
    this.store.clear();
    this.version += 1;
  }
}
