import type { FrameBase } from '../../core/store/frames';

/** A token with one of the largest numbers of the run, and the text around it. */
export interface TopToken {
  readonly value: number;
  readonly step: number;
  /** Of the global batch, or of the prompt set. */
  readonly row: number;
  readonly position: number;
  /** 33 ids, the token in the middle; -1: the text has none there. */
  readonly ids: readonly number[];
}

export interface TopTokensFrame extends FrameBase {
  readonly kind: 'top_tokens';
  /** Columns or directions, in the order of the plan's entry. */
  readonly units: number;
  readonly unit: number;
  /** Of the chosen unit, the largest first. */
  readonly best: readonly TopToken[];
}

declare module '../../core/store/frames' {
  interface Frames {
    readonly top_tokens: TopTokensFrame;
  }
}
