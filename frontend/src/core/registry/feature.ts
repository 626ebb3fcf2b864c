import type { Component } from 'svelte';
import type {
  AuditLine,
  CompressorFacts,
  Notification,
  PlanEntry,
  PointFacts,
  RunFacts,
} from '../../protocol/messages';
import type { Session } from '../session/session';
import type { StepTrack } from '../session/step_track';
import type { TabFacts } from '../session/tabs';
import type { UrlMembers } from '../session/url_state';
import type { WatchedEntry } from '../session/watched';
import type { CompressorKind } from '../store/compressors';
import type { FramePair, PairBase } from '../store/frame_pair';
import type { FrameBase, View, ViewFrame, ViewQuery } from '../store/frames';
import type { Slot } from '../worker/link_messages';
import type { Command } from './commands';
import type { Exported, FrameFiles } from './files';
import type { Panel } from './panel';
import type { PlanFeature } from './plan_feature';

/** A component that needs only the session. */
export type Piece = Component<{ session: Session }>;

/** The comparison of two frames of one kind. */
export interface FrameComparison<F extends ViewFrame = ViewFrame> {
  /** The part of the shape that must be equal, as text for the user; layers may differ. */
  shapeOf(frame: F): string;
  /** The reason why the difference of these two frames is not defined; undefined if it is defined. */
  obstacle?(a: F, b: F): string | undefined;
  pairOf(base: PairBase<F>): Extract<FramePair, { readonly a: F }>;
  readonly panel: Panel<{
    session: Session;
    pair: Extract<FramePair, { readonly a: F }>;
  }>;
}

/**
 * One number for each layer: the root mean square of its values. It does not depend on the number of
 * tokens.
 */
export type LayerSizes = ReadonlyMap<number, number>;

/** The components and functions with which the page shows one kind of frame. */
export interface FrameView<F extends ViewFrame = ViewFrame> {
  readonly kind: F['kind'];
  readonly panel: Panel<{ session: Session; frame: F; point: string }>;
  /** The text of a frame that has predictions of the next tokens. */
  readonly reader?: Panel<{ session: Session; frame: F }>;
  /** The numbers that the map of the model draws. */
  sizesOf?(frame: F): LayerSizes;
  /** The choice of a part of the frame, such as a head; shown beside the choice of the layer. */
  readonly choice?: Component<{ session: Session; frame: F }>;
  /** A tool of the feature sets the colour scale of the panel. */
  readonly hasOwnScale?: boolean;
  /** The export of the frame's numbers; absent if the frame has no numbers. */
  readonly files?: () => Promise<FrameFiles<F>>;
  readonly compare?: FrameComparison<F>;
}

/** The facts of a record that a text about it needs. */
export type Recorded = Pick<FrameBase, 'compressor' | 'plan'> & {
  readonly query: Pick<ViewQuery, 'numbers' | 'direction'>;
  /** The index of the vector; only for a projection. */
  readonly vector?: number;
};

/** The texts about a compressor. `of` is the plan's compressor; undefined if the plan is not known. */
export interface Compressor extends CompressorKind {
  /** Its records are shown as maps, which have a colour scale. */
  readonly hasScale: boolean;
  /** The content of a record: "the mean of each tile". `unknown` is the text for an unknown plan. */
  meaningOf?(
    record: Omit<Recorded, 'query'>,
    of: CompressorFacts | undefined,
    unknown: string,
  ): string;
  /** The quantity of a record: "activation, mean over tile". `numbers` is the point's noun. */
  quantityOf?(numbers: string, record: Recorded, of: CompressorFacts | undefined): string;
  /** The statistics of its records that an alarm can test, by their names in `alarms.set`. The first is the default. */
  readonly statistics?: readonly string[];
  /** Whether the records of a point have these statistics; without it all points have them. */
  readonly hasStatistics?: (point: PointFacts) => boolean;
}

/** A tab of the page. */
export interface Tab extends TabFacts {
  readonly panel: Panel<{ session: Session }>;
  /** The entries that the user can choose in this tab. */
  pointsOf?(watched: readonly WatchedEntry[]): readonly WatchedEntry[];
  /** The tab always shows maps of one layer; it ignores `layout` in the address. */
  readonly isOfOneLayer?: boolean;
  /** The query of the main slot, if it is not the query of the shown entry. */
  queryOf?(session: Session): ViewQuery | null;
  trackOf?(session: Session): StepTrack;
  /** Whether the tab has numbers to export. */
  hasNumbers?(session: Session): boolean;
  /** The export of the tab, if it does not export the frame. */
  readonly files?: () => Promise<(session: Session) => Promise<Exported>>;
  /** The names of the frame's arrays that the tab shows; without it, all arrays. */
  arrayNames?(frame: ViewFrame): readonly string[] | null;
}

/** The callbacks of a feature during the session. */
export interface Follower {
  onNotification?(notification: Notification): void;
  /** Lines of the hub's audit trail, oldest first; a line may come again. */
  onTrail?(lines: readonly AuditLine[]): void;
  /** The run's facts have arrived; `isAnother`: it is another run than before. */
  onRun?(run: RunFacts, isAnother: boolean): void;
  /** The state has changed, so that the feature may need another query for its slot. */
  sendQuery?(): void;
  onView?(slot: Slot, view: View): void;
  /** The current warning, for the page's title and the log. */
  readonly warning?: string | null;
}

/**
 * The contributions of a folder of `features` to the page. `WorkerFeature` has its contributions to
 * the worker.
 */
export interface Feature {
  /** The feature's members of the view, and their form in the address. */
  readonly url?: UrlMembers;
  readonly compressors?: readonly Compressor[];
  readonly views?: readonly FrameView[];
  readonly tabs?: readonly Tab[];
  /** Choices in the toolbar above the maps. */
  readonly viewTools?: readonly Piece[];
  /**
   * Components below the tabs (`banners`), beside the run's state (`chips`), before the run's buttons
   * (`controls`) and beside the tabs (`pageTools`).
   */
  readonly banners?: readonly Piece[];
  readonly chips?: readonly Piece[];
  readonly controls?: readonly Piece[];
  readonly pageTools?: readonly Piece[];
  commandsOf?(session: Session): readonly Command[];
  /** The command for a text with a number that the user typed in the palette. */
  typedCommand?(session: Session, typed: string): Command | undefined;
  /** The entry of a one-click trace, if the view needs other members than the trainer's defaults. */
  traceOf?(point: PointFacts): Omit<PlanEntry, 'point'> | undefined;
  /** The feature's part of the trace plan's form; it is loaded with the form. */
  readonly plan?: () => Promise<PlanFeature>;
  start?(session: Session): Follower | readonly Follower[];
}

/** Casts the view of one kind to `FrameView`. The registry gives it only frames of its kind. */
export function frameView<F extends ViewFrame>(view: FrameView<F>): FrameView {
  return view as unknown as FrameView;
}
