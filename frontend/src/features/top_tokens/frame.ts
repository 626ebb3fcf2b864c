import type { FrameBase } from '../../core/store/frames';

/** A token with one of the largest numbers of the run, and the text around it. */
export interface TopToken {
  readonly value: number;
  readonly step: number;
  /** The row in the global batch, or in the prompt set. */
  readonly row: number;
  readonly position: number;
  /** 33 ids, the token in the middle; -1: outside the text. */
  readonly ids: readonly number[];
}

export interface TopTokensFrame extends FrameBase {
  readonly kind: 'top_tokens';
  /** The number of columns or directions, which have the order of the plan's entry. */
  readonly units: number;
  readonly unit: number;
  /** The tokens of the chosen unit, the largest number first. */
  readonly best: readonly TopToken[];
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly top_tokens: TopTokensFrame;
  }
}
