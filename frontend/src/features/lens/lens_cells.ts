import { colourNumber, type LensColour } from './lens_colour';
import type { LensFrame } from './frame';

/** One prediction of a cell. */
export interface LensPrediction {
  readonly id: number;
  readonly score: number;
  readonly probability: number;
  readonly isTarget: boolean;
}

/** The predictions of one layer after one token, best first; empty if the layer was not captured. */
export function predictionsAt(frame: LensFrame, row: number, col: number): LensPrediction[] {
  const { k, cols, ids, scores, logSumExp, targets } = frame;
  const cell = row * cols + col;
  if (Number.isNaN(logSumExp[cell])) return [];
  return Array.from({ length: k }, (_, rank) => {
    const at = cell * k + rank;
    const probability = Math.exp(scores[at] - logSumExp[cell]);
    return { id: ids[at], score: scores[at], probability, isTarget: ids[at] === targets[col] };
  });
}

/** The number that the colour of a cell shows; NaN: not known. */
export function valueAt(frame: LensFrame, row: number, col: number, colour: LensColour): number {
  const cell = row * frame.cols + col;
  const bestScore = frame.scores[cell * frame.k];
  const [logSumExp, entropy, loss] = [frame.logSumExp, frame.entropy, frame.loss].map(
    (numbers) => numbers[cell],
  );
  return colourNumber({ bestScore, logSumExp, entropy, loss }, colour);
}

/** The number of the strongest colour: probability 1, or the entropy of a uniform prediction. */
export function highestOf({ features }: Pick<LensFrame, 'features'>, colour: LensColour): number {
  return colour === 'entropy' ? Math.log(Math.max(2, features)) : 1;
}

/** The columns that a box of `width` pixels shows, and one more at each end. */
export function columnsIn(
  left: number,
  width: number,
  columnWidth: number,
  cols: number,
): readonly [first: number, end: number] {
  const first = Math.max(0, Math.floor(left / columnWidth) - 1);
  return [Math.min(first, cols), Math.min(cols, Math.ceil((left + width) / columnWidth) + 1)];
}
