import type { MapPair, PairBase } from '../../core/store/frame_pair';
import type { TopKFrame } from './frame';

/** A token whose best column is another one in B. */
export interface ChangedBest {
  readonly col: number;
  readonly a: { readonly id: number; readonly value: number };
  readonly b: { readonly id: number; readonly value: number };
}

export interface TopKPair extends PairBase<TopKFrame> {
  readonly maps: MapPair;
  readonly changed: readonly ChangedBest[];
}

declare module '../../core/store/frame_pair' {
  interface FramePairs {
    readonly topk: TopKPair;
  }
}

/** Where the best columns differ. */
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
