import type { RafScheduler } from '../../base/raf_scheduler';
import type {
  OtherRunFacts,
  Part,
  Plan,
  RunFacts,
  RunState,
  StepFacts,
  Tokenizer,
} from '../../protocol/messages';
import type { EmptyView, ViewFrame } from '../store/frames';
import type { RunEvent } from '../store/event';
import type { SeriesStore } from '../store/series_store';
import type { StepRange } from '../worker/history_client';
import type { Connection, Traffic } from '../worker/link_messages';
import type { WorkerLink } from '../worker/worker_link';
import type { Chip } from './connection_chip';
import type { Controller } from './controller.svelte';
import type { Drops } from './drops';
import type { PlanBook } from './plan_book.svelte';
import type { Replay } from './replay';
import type { StepTrack } from './step_track';
import type { Theme } from './theme';
import type { Toasts } from './toasts.svelte';
import type { ViewState } from './url_state';
import type { WatchedEntry } from './watched';

// The state of the page for features and shared components. A component takes only the part that it
// needs. All of it is reactive.

/** The view, as in the address, and the state that all drawings use. */
export interface Stage {
  readonly view: ViewState;
  /** Changes the view; the address and the worker follow. */
  show(change: Partial<ViewState>): void;
  readonly scheduler: RafScheduler;
  readonly theme: Theme;
  readonly tokenizer: Tokenizer;
  /** The token column under the mouse, shared by all maps. */
  hoverColumn: number | null;
  /** The events up to the last step that may be shown, by step. */
  readonly happened: readonly RunEvent[];
}

/** The run: its facts, its plan, its scalars. */
export interface Run {
  readonly run: RunFacts | null;
  readonly runState: RunState | null;
  readonly plan: Plan | null;
  /** The step from which the plan is in force; null if no notification has told the page this step. */
  readonly planSince: number | null;
  readonly plans: PlanBook;
  /** The runs that the hub offers in addition to its own run. */
  readonly otherRuns: readonly OtherRunFacts[];
  /** Null while the run is live. */
  readonly replay: Replay | null;
  /** The newest step, also while the view is held; in a replay, its current step. */
  readonly newestStep: number;
  readonly latest: StepFacts | null;
  readonly series: Pick<SeriesStore, 'stride'>;
  /** The scalars that are shown. */
  scalars(): readonly StepFacts[];
}

/** The data of the maps: an entry of the plan at a step. */
export interface Shown {
  readonly frame: ViewFrame | null;
  readonly empty: EmptyView | null;
  /** The entries that can be shown, and `points`, those that the user can choose in the tab. */
  readonly watched: readonly WatchedEntry[];
  readonly points: readonly WatchedEntry[];
  readonly point: WatchedEntry | null;
  readonly layer: number;
  readonly layerChoices: readonly number[];
  readonly phase: 'train' | 'eval';
  /** The steps that can be shown. */
  readonly track: StepTrack;
  /** The last step that may be shown: the step of a replay, or of a held view; null for no limit. */
  readonly until: number | null;
  choosePoint(name: string): void;
  moveStep(by: 1 | -1): void;
  follow(): void;
  toggleHold(): void;
  /** The name of the point that a frame shows. The plan may have changed since then. */
  pointNameOf(frame: ViewFrame | null): string;
  /** The entry's interval in steps. */
  everyOf(entry: WatchedEntry | null, phase: 'train' | 'eval'): number;
}

/** The hub, and the requests to it. */
export interface Hub {
  readonly connection: Connection;
  readonly hubVersion: string;
  readonly chip: Chip;
  readonly lag: number;
  readonly drops: Drops;
  readonly traffic: Traffic | null;
  /** The pipeline stages, and which of them are connected. */
  readonly parts: readonly Part[];
  /** The range of steps in the hub's history. */
  readonly history: StepRange | null;
  readonly control: Controller;
  /** Messages of a feature that the user should see in any view. */
  readonly toasts: Pick<Toasts, 'say'>;
  readonly link: Pick<WorkerLink, 'request' | 'query' | 'whole' | 'keep' | 'lossesOf' | 'askRuns'>;
}

/** The page as a feature sees it. */
export interface Session extends Stage, Run, Shown, Hub {}
