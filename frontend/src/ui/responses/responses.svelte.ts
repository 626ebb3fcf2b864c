import { read } from '../../base/schema';
import {
  type AuditLine,
  type Notification,
  type ResponseFacts,
  responseSchema,
  type RunFacts,
} from '../../protocol/messages';
import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import { ResponseStore } from './response_store';

/** The responses that the run has sent, and those of its recording. */
export class Responses implements Follower {
  private readonly store = new ResponseStore();
  private version = $state(0);
  private run = '';

  get isEmpty(): boolean {
    return this.version < 0 || this.store.isEmpty;
  }

  /** The responses to a prompt up to a step, the newest first. */
  of(promptSet: number, prompt: number, until: number | null): readonly ResponseFacts[] {
    return this.version < 0 ? [] : this.store.of(promptSet, prompt, until ?? Infinity);
  }

  onRun({ id }: RunFacts, isAnother: boolean): void {
    this.run = id;
    if (!isAnother) return;
    this.store.clear();
    this.version += 1;
  }

  onNotification(notification: Notification): void {
    if (notification.event !== 'response') return;
    this.store.add(notification.params);
    this.version += 1;
  }

  onTrail(lines: readonly AuditLine[]): void {
    for (const { kind, run, detail } of lines) {
      const response = kind === 'response' && run === this.run && read(responseSchema, detail);
      if (response) this.store.add(response);
    }
    this.version += 1;
  }
}

export const responsesOf = stateOf(() => new Responses());
