import type { FrameBase } from '../../core/store/frames';

/** The numbers of each parameter after an update, and one of the numbers over the steps. */
export interface UpdatesFrame extends FrameBase {
  readonly kind: 'updates';
  /** The count of rows and of columns of the table. Their names are in the run's facts. */
  readonly parameters: number;
  readonly columns: number;
  readonly table: Float64Array<ArrayBuffer>;
  readonly overSteps: {
    /** The column that the curves show. */
    readonly column: number;
    readonly steps: readonly number[];
    /** By parameter; empty for a parameter that the query does not ask for. */
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
