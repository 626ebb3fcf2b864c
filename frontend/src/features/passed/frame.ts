import type { FrameBase } from '../../core/store/frames';

/** The forward pass reached the point; its record has no numbers. */
export interface PassedFrame extends FrameBase {
  readonly kind: 'passed';
  /** The layers that the forward pass reached at this step. */
  readonly passed: readonly number[];
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly passed: PassedFrame;
  }
}
