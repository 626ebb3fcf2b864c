import type { FrameBase } from '../../core/store/frames';

/** Numbers of each parameter after an update, and one of them over the steps. */
export interface UpdatesFrame extends FrameBase {
  readonly kind: 'updates';
  /** Rows and columns of the table; their names are in the run's facts. */
  readonly parameters: number;
  readonly columns: number;
  readonly table: Float64Array<ArrayBuffer>;
  readonly overSteps: {
    /** The column that the lines show. */
    readonly column: number;
    readonly steps: readonly number[];
    /** By parameter, those that were asked for; the others are empty. */
    readonly values: readonly (readonly (number | null)[])[];
  };
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly updates: UpdatesFrame;
  }
  interface FeatureQuery {
    readonly updatesColumn: number;
    readonly updatesDrawn: readonly number[];
  }
}
