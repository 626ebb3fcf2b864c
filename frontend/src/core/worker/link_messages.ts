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
 * The places of the page that show a view: one, beside it the other of a comparison, and before and
 * behind the layers what the map of the model draws of the embedding and of the head.
 */
export const kSlots = ['main', 'other', 'before', 'behind'] as const;
export type Slot = (typeof kSlots)[number];

/** How the connection to the hub stands. `at` is a time of Date.now(). */
export type Connection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'open' }
  /** `message`: why, '' where that is not known. */
  | { readonly kind: 'reconnecting'; readonly at: number; readonly message: string }
  | { readonly kind: 'refused'; readonly reason: 'token' | 'hub'; readonly message: string };

/** What the worker counts; rates are of the last second. */
export interface Traffic {
  readonly bytesPerSecond: number;
  readonly recordsPerSecond: number;
  readonly storedBytes: number;
  readonly capacity: number;
  /** Messages or records that could not be read, and what was wrong with the last. */
  readonly problems: number;
  readonly lastProblem: string;
  /** The ranks that send records. */
  readonly leaders: readonly LeaderFacts[];
}

/** What one `events` message brings, in the order of arrival. */
export type HubEvent =
  | { readonly kind: 'hello'; readonly hello: Hello }
  /** Scalars of the past, ascending; thinned out to every `stride`-th step. */
  | { readonly kind: 'past'; readonly facts: readonly StepFacts[]; readonly stride: number }
  /** The steps that the hub's history tells of; null: it keeps none. */
  | { readonly kind: 'history'; readonly range: StepRange | null }
  /** Lines of the hub's audit trail, oldest first. */
  | { readonly kind: 'trail'; readonly lines: readonly AuditLine[] }
  /** The runs that the hub offers beside its own. */
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
  /** Asks for a view of the hub's own run with every number, once. */
  | { readonly kind: 'whole'; readonly token: number; readonly query: ViewQuery }
  /** Asks for the losses of another run. */
  | { readonly kind: 'losses'; readonly token: number; readonly run: string }
  /** Asks for the other runs once more. */
  | { readonly kind: 'runs' }
  /** Records of an answer: whole views of this prompt set are built from them, and from no others. */
  | { readonly kind: 'keep'; readonly records: ArrayBuffer; readonly promptSet: number }
  | { readonly kind: 'drawn'; readonly slot: Slot }
  | { readonly kind: 'sync'; readonly token: number };
