import type {
  Answer,
  AuditLine,
  Hello,
  Notification,
  OtherRunFacts,
  StepFacts,
} from '../../protocol/messages';
import type { View, ViewQuery } from '../store/frames';
import type { StepLoss } from '../store/losses';
import type { StepRange } from './history_client';
import type { LeaderFacts } from './leaders';

/**
 * The slots of the page that show a view: the main view, the other view of a comparison, the
 * embedding (`before` the layers) and the head (`behind` them) in the map of the model, the traits of
 * a run `beside` the own run, and the traits at the final norm of both (`norm`, `besideNorm`).
 */
export const kSlots = [
  'main',
  'other',
  'before',
  'behind',
  'beside',
  'norm',
  'besideNorm',
] as const;
export type Slot = (typeof kSlots)[number];

/** The state of the connection to the hub. `at` is a time of Date.now(). */
export type Connection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'open' }
  /** `message`: the reason; '' if it is not known. */
  | { readonly kind: 'reconnecting'; readonly at: number; readonly message: string }
  | { readonly kind: 'refused'; readonly reason: 'token' | 'hub'; readonly message: string };

/** The counts of the worker; rates are those of the last second. */
export interface Traffic {
  readonly bytesPerSecond: number;
  readonly recordsPerSecond: number;
  readonly storedBytes: number;
  readonly capacity: number;
  /** The number of unreadable messages and records, and the text of the last problem. */
  readonly problems: number;
  readonly lastProblem: string;
  /** The ranks that send records. */
  readonly leaders: readonly LeaderFacts[];
}

/** One event of an `events` message; events are in the order of arrival. */
export type HubEvent =
  | { readonly kind: 'hello'; readonly hello: Hello }
  /** Past scalars, ascending; thinned out to every `stride`-th step. */
  | { readonly kind: 'past'; readonly facts: readonly StepFacts[]; readonly stride: number }
  /** The range of steps in the hub's history; null if it has none. */
  | { readonly kind: 'history'; readonly range: StepRange | null }
  /** Lines of the hub's audit trail, oldest first. */
  | { readonly kind: 'trail'; readonly lines: readonly AuditLine[] }
  /** The runs that the hub offers in addition to its own run. */
  | { readonly kind: 'runs'; readonly runs: readonly OtherRunFacts[] }
  | { readonly kind: 'notification'; readonly notification: Notification };

export type FromWorker =
  | { readonly kind: 'connection'; readonly connection: Connection }
  | { readonly kind: 'events'; readonly events: readonly HubEvent[] }
  | { readonly kind: 'answer'; readonly token: number; readonly answer: Answer }
  | { readonly kind: 'view'; readonly slot: Slot; readonly view: View }
  | { readonly kind: 'whole'; readonly token: number; readonly view: View }
  | { readonly kind: 'losses'; readonly token: number; readonly losses: readonly StepLoss[] }
  | { readonly kind: 'traffic'; readonly traffic: Traffic }
  | { readonly kind: 'synced'; readonly token: number };

export type ToWorker =
  | { readonly kind: 'start'; readonly socketUrl: string; readonly capacity: number }
  | {
      readonly kind: 'request';
      readonly token: number;
      readonly method: string;
      readonly params: unknown;
    }
  | { readonly kind: 'query'; readonly slot: Slot; readonly query: ViewQuery | null }
  /** Requests one view of the hub's own run with every number. */
  | { readonly kind: 'whole'; readonly token: number; readonly query: ViewQuery }
  /** Requests the losses of another run. */
  | { readonly kind: 'losses'; readonly token: number; readonly run: string }
  /** Requests the list of other runs again. */
  | { readonly kind: 'runs' }
  /** The records of an answer. `whole` views of this prompt set are built only from these records. */
  | { readonly kind: 'keep'; readonly records: ArrayBuffer; readonly promptSet: number }
  | { readonly kind: 'drawn'; readonly slot: Slot }
  | { readonly kind: 'sync'; readonly token: number };
