import type { Component } from 'svelte';
import type {
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

/** A piece of the page that needs nothing but the session. */
export type Piece = Component<{ session: Session }>;

/** How two frames of one kind are compared. */
export interface FrameComparison<F extends ViewFrame = ViewFrame> {
  /** What of the shape must be equal, for reading; layers may differ. */
  shapeOf(frame: F): string;
  /** Why these two have no difference, if they have none. */
  obstacle?(a: F, b: F): string | undefined;
  pairOf(base: PairBase<F>): Extract<FramePair, { readonly a: F }>;
  readonly panel: Panel<{
    session: Session;
    pair: Extract<FramePair, { readonly a: F }>;
  }>;
}

/** One number of each layer: the root mean square of its values, whatever the number of tokens. */
export type LayerSizes = ReadonlyMap<number, number>;

/** How the page shows one kind of frame. */
export interface FrameView<F extends ViewFrame = ViewFrame> {
  readonly kind: F['kind'];
  readonly panel: Panel<{ session: Session; frame: F; point: string }>;
  /** The text of a frame that has predictions of the next tokens. */
  readonly reader?: Panel<{ session: Session; frame: F }>;
  /** What the map of the model draws. */
  sizesOf?(frame: F): LayerSizes;
  /** A tool of the feature chooses the scale of the panel's colours. */
  readonly hasOwnScale?: boolean;
  /** Without it the frame has no numbers. */
  readonly files?: () => Promise<FrameFiles<F>>;
  readonly compare?: FrameComparison<F>;
}

/** A record, as words about it need it. */
export type Recorded = Pick<FrameBase, 'compressor' | 'plan'> & {
  readonly query: Pick<ViewQuery, 'numbers' | 'direction'>;
  /** Of a projection. */
  readonly vector?: number;
};

/** What the page says of a compressor. `of`: as the plan has it; undefined where the plan is not known. */
export interface Compressor extends CompressorKind {
  /** Its records are maps, whose colours have a scale. */
  readonly hasScale: boolean;
  /** What a record holds: "the mean of each tile". `unknown`: said of the plan that is not known. */
  meaningOf?(
    record: Omit<Recorded, 'query'>,
    of: CompressorFacts | undefined,
    unknown: string,
  ): string;
  /** The numbers of a record, `numbers` being those of the point: "activation, mean over tile". */
  quantityOf?(numbers: string, record: Recorded, of: CompressorFacts | undefined): string;
  /** The statistics of its records that an alarm can test, by their names in `alarms.set`. The first is the default. */
  readonly statistics?: readonly string[];
  /** Whether the records of a point have these statistics; without it all points have them. */
  readonly hasStatistics?: (point: PointFacts) => boolean;
}

/** A tab of the page. */
export interface Tab extends TabFacts {
  readonly panel: Panel<{ session: Session }>;
  /** The entries that it can choose from. */
  pointsOf?(watched: readonly WatchedEntry[]): readonly WatchedEntry[];
  /** It shows maps of one layer, whatever the address says. */
  readonly isOfOneLayer?: boolean;
  /** What the main slot shows, where the shown entry does not say. */
  queryOf?(session: Session): ViewQuery | null;
  trackOf?(session: Session): StepTrack;
  /** Whether there are numbers for a file. */
  hasNumbers?(session: Session): boolean;
  /** What it hands to a file, where that is not the frame. */
  readonly files?: () => Promise<(session: Session) => Promise<Exported>>;
  /** The arrays of the frame that it shows; without it all of them. */
  arrayNames?(frame: ViewFrame): readonly string[] | null;
}

/** What a feature does while the session goes on. */
export interface Follower {
  onNotification?(notification: Notification): void;
  /** The run's facts came; `isAnother`: of another run than before. */
  onRun?(run: RunFacts, isAnother: boolean): void;
  /** Something changed that a slot of the feature may ask for. */
  sendQuery?(): void;
  onView?(slot: Slot, view: View): void;
  /** What is wrong now; said in the title and in the log. */
  readonly warning?: string | null;
}

/** All that a folder of `features` contributes to the page. Its worker side is `WorkerFeature`. */
export interface Feature {
  /** Its members of the view, as they stand in the address. */
  readonly url?: UrlMembers;
  readonly compressors?: readonly Compressor[];
  readonly views?: readonly FrameView[];
  readonly tabs?: readonly Tab[];
  /** Choices in the toolbar above the maps. */
  readonly viewTools?: readonly Piece[];
  /** Lines below the tabs, marks beside the run's state, before its buttons, and beside the tabs. */
  readonly banners?: readonly Piece[];
  readonly chips?: readonly Piece[];
  readonly controls?: readonly Piece[];
  readonly pageTools?: readonly Piece[];
  commandsOf?(session: Session): readonly Command[];
  /** A command that was typed with its own number. */
  typedCommand?(session: Session, typed: string): Command | undefined;
  /** How one click traces a point, where its view needs other than the trainer's defaults. */
  traceOf?(point: PointFacts): Omit<PlanEntry, 'point'> | undefined;
  /** Its part of the trace plan's form, which is loaded with the form. */
  readonly plan?: () => Promise<PlanFeature>;
  start?(session: Session): Follower;
}

/** A view of one kind among those of all kinds: the registry hands it frames of its kind alone. */
export function frameView<F extends ViewFrame>(view: FrameView<F>): FrameView {
  return view as unknown as FrameView;
}
