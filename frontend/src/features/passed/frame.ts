import type { FrameBase } from '../../core/store/frames';

/** The point was passed; no numbers travel. */
export interface PassedFrame extends FrameBase {
  readonly kind: 'passed';
  /** Layers that were passed at this step. */
  readonly passed: readonly number[];
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly passed: PassedFrame;
  }
}
