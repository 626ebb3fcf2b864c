import type { Form } from './form';
import type { MapData } from './map_data';
import type { Pin, Pinned } from './pin';

/** In place of a head: the average of all. */
export const kMeanHead = -1;

/** What the page wants to see. `step` null follows the newest. */
export interface ViewQuery {
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
  /** kMeanHead: the average of all. */
  readonly head: number;
  readonly vector: number;
  readonly aggregate: 'mean' | 'absmax';
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

/** Both heat maps of one step, ready to draw. */
export interface MapsFrame extends FrameBase {
  readonly kind: 'maps';
  readonly tiles: number;
  /** Layers down, tokens across. */
  readonly layerMap: MapData;
  /** Tiles (or columns) down, tokens across, of one layer. */
  readonly tileMap: MapData;
}

/** Tiles × tokens of every layer, folded to what small maps can show. */
export interface LayersFrame extends FrameBase {
  readonly kind: 'layers';
  readonly tiles: number;
  /** One of each of `layers`; null: not captured. */
  readonly maps: readonly (MapData | null)[];
}

/** One number of each layer and step. */
export interface OverFrame extends FrameBase {
  readonly kind: 'over';
  /** Layers down, steps across. */
  readonly map: MapData;
  /** The step of each column, of gaps too. */
  readonly columns: readonly number[];
  /** The step of each cell's number: a column may stand for several. */
  readonly stepOf: Float64Array<ArrayBuffer>;
}

/** Attention of one head: queries down, keys (or tiles of them) across. */
export interface AttentionFrame extends FrameBase {
  readonly kind: 'attention';
  readonly heads: number;
  readonly head: number;
  readonly keys: number;
  readonly map: MapData;
  /** All heads, where there are several. */
  readonly small: readonly MapData[];
  readonly queryTokens: Int32Array | null;
  readonly queryPositions: Int32Array;
}

/** One line per layer over the kept steps of one plan. Null: not captured. */
export interface History {
  readonly steps: readonly number[];
  /** By name of the line's quantity, then by layer, then by step. */
  readonly lines: Readonly<Record<string, readonly (readonly (number | null)[])[]>>;
}

/** The ten numbers of `stats`, in the order of the wire. */
export const kStatNames = [
  'count',
  'mean',
  'std',
  'min',
  'max',
  'norm',
  'zeros',
  'NaN',
  '+Inf',
  '−Inf',
] as const;

/** Histograms side by side: of one layer at many steps, or of many layers at one step. */
export interface Ridge {
  /** Steps or layers, one of each row. */
  readonly names: readonly number[];
  /** Row by row. */
  readonly bins: Float64Array<ArrayBuffer>;
}

/** Where a layer left its range, and how. */
export interface Departure {
  readonly layer: number;
  readonly step: number;
  /** How many numbers were not finite; or else how large the norm was, in its usual ones. */
  readonly bad: number;
  readonly times: number;
}

export interface StatsFrame extends FrameBase {
  readonly kind: 'stats';
  /** Ten numbers for each layer, NaN for one that was not captured. */
  readonly table: Float64Array<ArrayBuffer>;
  /** The histogram of the chosen layer. */
  readonly bins: Float64Array<ArrayBuffer>;
  readonly history: History;
  readonly stepRidge: Ridge;
  readonly layerRidge: Ridge;
  /** The first layer that left its range; null: none has. */
  readonly departure: Departure | null;
}

export interface ProjectionFrame extends FrameBase {
  readonly kind: 'projection';
  readonly vectors: number;
  readonly vector: number;
  /** Layers down, tokens across, on one vector. */
  readonly layerMap: MapData;
  /** Of the last token and the mean over tokens; for the alarm of the asked layer alone. */
  readonly history: History;
}

export interface TopKFrame extends FrameBase {
  readonly kind: 'topk';
  /** Ranks down, tokens across. */
  readonly map: MapData;
  /** The column (of Logits: the token id) of every cell of the map. */
  readonly ids: Int32Array<ArrayBuffer>;
}

/** The point was passed; no numbers travel. */
export interface PassedFrame extends FrameBase {
  readonly kind: 'passed';
  /** Layers that were passed at this step. */
  readonly passed: readonly number[];
}

export type ViewFrame =
  | MapsFrame
  | LayersFrame
  | OverFrame
  | AttentionFrame
  | StatsFrame
  | ProjectionFrame
  | TopKFrame
  | PassedFrame;

/** Nothing to show, and why. */
export interface EmptyView {
  readonly query: ViewQuery;
  /** `gap`: nobody has kept the step; `fetching`: the hub's history was asked for it. */
  readonly reason: 'none' | 'unreadable' | 'gap' | 'fetching';
  readonly steps: readonly number[];
  readonly dtype: number;
  readonly compressor: number;
  readonly shape: readonly number[];
}

export type View = { readonly frame: ViewFrame } | { readonly empty: EmptyView };
