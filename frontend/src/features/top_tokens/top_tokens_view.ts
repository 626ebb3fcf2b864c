import { baseOf, type Scene } from '../../core/store/scene';
import { type Floats, toFloats } from '../../protocol/numbers';
import type { TopToken, TopTokensFrame } from './frame';

// The number, the step, the row and the position come before the ids.
const kFirstId = 4;

/** The list of one unit, from records of [units, k, 4 + ids]. */
export function topTokensView(scene: Scene): TopTokensFrame | undefined {
  const [record] = scene.parts;
  const { shape } = record.header;
  const values = toFloats(record);
  if (shape.length !== 3 || shape[2] <= kFirstId || values === undefined) return undefined;
  const [units, k, numbers] = shape;
  const unit = Math.min(scene.query.vector, units - 1);
  const best = Array.from({ length: k }, (_, rank) =>
    tokenOf(values.subarray((unit * k + rank) * numbers, (unit * k + rank + 1) * numbers)),
  );
  // Places that are not filled yet come last.
  const filled = best.filter(({ value }) => !Number.isNaN(value));
  return { ...baseOf(scene), kind: 'top_tokens', units, unit, best: filled };
}

function tokenOf(numbers: Floats): TopToken {
  const [value, step, row, position, ...ids] = numbers;
  return { value, step, row, position, ids };
}
