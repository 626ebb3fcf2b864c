import type { Form } from './compressors';
import type { Pin, Pinned } from './pin';

/** What features ask for: each adds its members where it declares them, and registers them (`UrlMember.isAsked`). */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- features fill it
export interface FeatureQuery {}

/** What the page wants to see. `step` null follows the newest. */
export interface ViewQuery extends FeatureQuery {
  readonly point: number;
  readonly entry: number;
  /** Number of the plan that `entry` is counted in. */
  readonly plan: number;
  readonly phase: number;
  readonly direction: number;
  /** 0: the run's own data. */
  readonly promptSet: number;
  readonly form: Form;
  /** Position of the first token that the entry takes. */
  readonly firstToken: number;
  /** Tokens of each prompt: what a row holds beyond them is filling. Null: rows are full. */
  readonly lengths: readonly number[] | null;
  readonly layer: number;
  /** Index in `rowNames` of the frame. */
  readonly row: number;

  /** Of tiles: one layer large, all layers, or a summary over the steps. */
  readonly layout: 'one' | 'all' | 'over';
  /** The cell whose values are asked for over tokens, layers and steps. */
  readonly pin: Pin | null;
  readonly step: number | null;
  /** While following: later steps are not shown yet, as a replay has not come to them. */
  readonly until: number | null;
  /** The entry takes every so many steps. */
  readonly every: number;
  /** The point and the layers as the hub's history is asked for them; layers null: all. */
  readonly pointName: string;
  /** A noun for one number of the point. */
  readonly numbers: string;
  readonly layerRanges: string | null;
  /** Another recording that the hub offers; empty: the run that it serves. */
  readonly run: string;
}

/** What every view of one step tells. */
export interface FrameBase {
  readonly query: ViewQuery;
  readonly step: number;
  readonly plan: number;
  /** Index in that plan. */
  readonly entry: number;
  /** The layer asked for if it was captured, else the nearest. */
  readonly layer: number;
  readonly layers: readonly number[];
  /** Rows of the global batch that can be chosen, prompts of a set, or micro-batches. */
  readonly rowNames: readonly number[];
  readonly rowKind: 'row' | 'prompt' | 'micro-batch';
  readonly features: number;
  readonly dtype: number;
  readonly compressor: number;
  /** Token ids of the shown row, where captured at this step; -1 for one that was not. */
  readonly tokens: Int32Array | null;
  readonly positions: Int32Array;
  /** Steps that can be shown. */
  readonly steps: readonly number[];
  /** From the hub's history, not as it arrived. */
  readonly fetched: boolean;
  /** What was asked for with the pin; null: nothing, or the view has no such cell. */
  readonly pinned: Pinned | null;
}

/** One line per layer over the kept steps of one plan. Null: not captured. */
export interface History {
  readonly steps: readonly number[];
  /** By name of the line's quantity, then by layer, then by step. */
  readonly lines: Readonly<Record<string, readonly (readonly (number | null)[])[]>>;
}

/** Every frame by its kind: each feature adds its own where it declares them. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- features fill it
export interface Frames {}

export type ViewFrame = Frames[keyof Frames];

/** Nothing to show, and why. */
export interface EmptyView {
  readonly query: ViewQuery;
  /**
   * `gap`: nobody has kept the step; `fetching`: the hub's history was asked for it; `loading`: the
   * code of the view is on its way, and the view is built again when it is here.
   */
  readonly reason: 'none' | 'unreadable' | 'gap' | 'fetching' | 'loading';
  readonly steps: readonly number[];
  readonly dtype: number;
  readonly compressor: number;
  readonly shape: readonly number[];
}

export type View = { readonly frame: ViewFrame } | { readonly empty: EmptyView };
