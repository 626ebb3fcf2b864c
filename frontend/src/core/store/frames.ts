import type { Form } from './compressors';
import type { Pin, Pinned } from './pin';

/**
 * The members of a query that features add. Each feature adds its members by declaration merging, and
 * registers them (`UrlMember.isAsked`).
 */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- features fill it
export interface FeatureQuery {}

/** A query of the page for a view. `step` null follows the newest step. */
export interface ViewQuery extends FeatureQuery {
  readonly point: number;
  readonly entry: number;
  /** The number of the plan for which `entry` is an index. */
  readonly plan: number;
  readonly phase: number;
  readonly direction: number;
  /** The number of the prompt set; 0 for the run's own data. */
  readonly promptSet: number;
  readonly form: Form;
  /** The position of the first token that the entry traces. */
  readonly firstToken: number;
  /** The number of tokens of each prompt; later tokens of a row are padding. Null: all rows are full. */
  readonly lengths: readonly number[] | null;
  readonly layer: number;
  /** The index in `rowNames` of the frame. */
  readonly row: number;

  /** The maps of tiles: one layer large, all layers, or a summary over the steps. */
  readonly layout: 'one' | 'all' | 'over';
  /** The cell whose values over tokens, layers and steps are wanted. */
  readonly pin: Pin | null;
  readonly step: number | null;
  /** The last step that may be shown: the step of a replay, or of a held view; null for no limit. */
  readonly until: number | null;
  /** The interval of the entry in steps. */
  readonly every: number;
  /** `point` and `layers` for requests to the hub's history; `layerRanges` null means all layers. */
  readonly pointName: string;
  /** A noun for one number of the point. */
  readonly numbers: string;
  readonly layerRanges: string | null;
  /** The id of another recording that the hub offers; '' for the hub's own run. */
  readonly run: string;
}

/** The members of every frame. */
export interface FrameBase {
  readonly query: ViewQuery;
  readonly step: number;
  readonly plan: number;
  /** The index in that plan. */
  readonly entry: number;
  /** The wanted layer if it was captured, otherwise the nearest captured layer. */
  readonly layer: number;
  readonly layers: readonly number[];
  /** The rows that the user can choose: rows of the global batch, prompts of a set, or micro-batches. */
  readonly rowNames: readonly number[];
  readonly rowKind: 'row' | 'prompt' | 'micro-batch';
  readonly features: number;
  readonly dtype: number;
  readonly compressor: number;
  /** The token ids of the shown row; -1 for a token that was not captured; null if none was captured. */
  readonly tokens: Int32Array | null;
  readonly positions: Int32Array;
  /** The steps that can be shown. */
  readonly steps: readonly number[];
  /** The records come from the hub's history; they did not arrive live. */
  readonly fetched: boolean;
  /** The values of the pinned cell; null without a pin, or if the view has no such cell. */
  readonly pinned: Pinned | null;
}

/** One line for each layer over the kept steps. Null: not captured. */
export interface History {
  readonly steps: readonly number[];
  /** By name of the quantity, then by layer, then by step. */
  readonly lines: Readonly<Record<string, readonly (readonly (number | null)[])[]>>;
}

/** All frames by kind. Each feature adds its frames by declaration merging. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- features fill it
export interface Frames {}

export type ViewFrame = Frames[keyof Frames];

/** A view without a frame, with the reason. */
export interface EmptyView {
  readonly query: ViewQuery;
  /**
   * `gap`: neither the page nor the hub has the step. `fetching`: the step was requested from the hub's
   * history. `loading`: the code of the view is being loaded, and then the view is built again.
   */
  readonly reason: 'none' | 'unreadable' | 'gap' | 'fetching' | 'loading';
  readonly steps: readonly number[];
  readonly dtype: number;
  readonly compressor: number;
  readonly shape: readonly number[];
}

export type View = { readonly frame: ViewFrame } | { readonly empty: EmptyView };
