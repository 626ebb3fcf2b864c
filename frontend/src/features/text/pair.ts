import type { MapPair, PairBase } from '../../core/store/frame_pair';
import { divergenceOf, type Listed } from '../../core/store/softmax';
import type { TopKFrame } from './frame';
import { bestOf } from './topk_view';

/** A token whose best column in B differs from the best column in A. */
export interface ChangedBest {
  readonly col: number;
  readonly a: { readonly id: number; readonly value: number };
  readonly b: { readonly id: number; readonly value: number };
}

/** The divergence of the predictions of A from those of B. */
export interface Divergences {
  /** KL(A‖B) of each token, in nats. */
  readonly nats: Float64Array<ArrayBuffer>;
  /** False: for some token, `nats` is only a lower bound. */
  readonly isExact: boolean;
}

export interface TopKPair extends PairBase<TopKFrame> {
  readonly maps: MapPair;
  readonly changed: readonly ChangedBest[];
  /** Null: a side has no log-sum-exp. */
  readonly divergences: Divergences | null;
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly topk: TopKPair;
  }
}

/** The tokens whose best columns differ. */
export function changedBest(a: TopKFrame, b: TopKFrame): readonly ChangedBest[] {
  const changed: ChangedBest[] = [];
  for (let col = 0; col < a.map.cols; col++) {
    if (a.ids[col] === b.ids[col]) continue;
    const best = (frame: TopKFrame): ChangedBest['a'] => ({
      id: frame.ids[col],
      value: frame.map.values[col],
    });
    changed.push({ col, a: best(a), b: best(b) });
  }
  return changed;
}

/** The divergence of every token; null if a side has no log-sum-exp. */
export function divergencesOf(a: TopKFrame, b: TopKFrame): Divergences | null {
  if (a.softmax === null || b.softmax === null) return null;
  const each = Array.from({ length: a.map.cols }, (_, col) =>
    divergenceOf(listedOf(a, col), listedOf(b, col), a.features),
  );
  return {
    nats: Float64Array.from(each, ({ nats }) => nats),
    isExact: each.every(({ isExact }) => isExact),
  };
}

function listedOf(frame: TopKFrame, col: number): Listed {
  const best = bestOf(frame, col);
  return {
    ids: best.map(({ id }) => id),
    scores: best.map(({ value }) => value),
    logSumExp: frame.softmax?.logSumExp[col] ?? Number.NaN,
  };
}
