import type { RafScheduler } from '../../base/raf_scheduler';
import type {
  OtherRunFacts,
  Part,
  Plan,
  RunFacts,
  RunState,
  StepFacts,
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

// What features and shared pieces see of the page. A piece names the part that it needs; all of it is reactive.

/** The view, as it stands in the address, and what pictures are drawn with. */
export interface Stage {
  readonly view: ViewState;
  /** Changes the view; the address and the worker follow. */
  show(change: Partial<ViewState>): void;
  readonly scheduler: RafScheduler;
  readonly theme: Theme;
  readonly tokenizer: string;
  /** Token column under the mouse, shared by all maps. */
  hoverColumn: number | null;
  /** What happened up to what is shown, by step. */
  readonly happened: readonly RunEvent[];
}

/** The run: its facts, its plan, its scalars. */
export interface Run {
  readonly run: RunFacts | null;
  readonly runState: RunState | null;
  readonly plan: Plan | null;
  /** The step from which the plan is in force, if this page has seen it come. */
  readonly planSince: number | null;
  readonly plans: PlanBook;
  /** The runs that the hub offers beside its own. */
  readonly otherRuns: readonly OtherRunFacts[];
  /** Null while the run is live. */
  readonly replay: Replay | null;
  /** The newest step, also while the view is held; of a replay the one that it is at. */
  readonly newestStep: number;
  readonly latest: StepFacts | null;
  readonly series: Pick<SeriesStore, 'stride'>;
  /** The scalars that are shown. */
  scalars(): readonly StepFacts[];
}

/** What the maps show: an entry of the plan, at a step. */
export interface Shown {
  readonly frame: ViewFrame | null;
  readonly empty: EmptyView | null;
  /** The entries that can be shown, and those of them that the tab can choose from. */
  readonly watched: readonly WatchedEntry[];
  readonly points: readonly WatchedEntry[];
  readonly point: WatchedEntry | null;
  readonly layer: number;
  readonly layerChoices: readonly number[];
  readonly phase: 'train' | 'eval';
  /** The steps that can be looked at. */
  readonly track: StepTrack;
  /** Nothing later is shown: a replay has not come to it, or the view is held. */
  readonly until: number | null;
  choosePoint(name: string): void;
  moveStep(by: 1 | -1): void;
  follow(): void;
  toggleHold(): void;
  /** The name of the point that a frame shows: the plan may have gone on. */
  pointNameOf(frame: ViewFrame | null): string;
  /** How many steps lie between two that an entry takes. */
  everyOf(entry: WatchedEntry | null, phase: 'train' | 'eval'): number;
}

/** The hub, and what may be asked of it. */
export interface Hub {
  readonly connection: Connection;
  readonly hubVersion: string;
  readonly chip: Chip;
  readonly lag: number;
  readonly drops: Drops;
  readonly traffic: Traffic | null;
  /** The pipeline stages, and which of them is connected. */
  readonly parts: readonly Part[];
  /** The steps that the hub's history tells of. */
  readonly history: StepRange | null;
  readonly control: Controller;
  /** Where a feature says what the user should see in any view. */
  readonly toasts: Pick<Toasts, 'say'>;
  readonly link: Pick<WorkerLink, 'request' | 'query' | 'whole' | 'keep' | 'lossesOf' | 'askRuns'>;
}

/** The page as a feature sees it. */
export interface Session extends Stage, Run, Shown, Hub {}
