import type { LensFrame } from './frame';
import { rowNamed, type Scene, tokenBaseOf } from '../../core/store/scene';
import { type CellReader, pinnedOf } from '../../core/store/pinned';
import { type Softmax, softmaxAt, softmaxOf } from '../../core/store/softmax';
import { colourNumber, type LensColour } from './lens_colour';
import { type Floats, toFloats } from '../../protocol/numbers';
import type { TensorRecord } from '../../protocol/record';

/** The values of one record, and the softmax of one batch row. */
interface Read {
  readonly values: Floats;
  readonly shape: readonly number[];
  readonly softmax: Softmax;
}

/** Predictions of every layer for one batch row, from records of [2 + planes, rows, tokens, k]. */
export function lensView(scene: Scene): LensFrame | undefined {
  const { shape } = scene.parts[0].header;
  const found = shape.length === 4 ? tokenBaseOf(scene, 1, shape[2]) : undefined;
  if (found === undefined) return undefined;
  const { base, row, cols } = found;
  const k = shape[3];
  const cells = base.layers.length * cols;
  const unknown = (): Float64Array<ArrayBuffer> => new Float64Array(cells).fill(Number.NaN);
  const frame = {
    ids: new Int32Array(cells * k).fill(-1),
    scores: new Float64Array(cells * k).fill(Number.NaN),
    logSumExp: unknown(),
    entropy: unknown(),
    loss: unknown(),
    targets: new Int32Array(cols).fill(-1),
  };
  base.layers.forEach((layer, index) => {
    const place = rowNamed(scene.group.layers.get(layer), 1, row.name);
    const read = place === undefined ? undefined : readOf(place.record, place.row, cols, k);
    if (place === undefined || read === undefined) return;
    const { values, softmax } = read;
    const [, rows, tokens] = read.shape;
    const plane = (number: number): number => (number * rows + place.row) * tokens * k;
    const first = index * cols;
    frame.scores.set(values.subarray(plane(0), plane(0) + cols * k), first * k);
    frame.ids.set(values.subarray(plane(1), plane(1) + cols * k), first * k);
    frame.logSumExp.set(softmax.logSumExp, first);
    frame.entropy.set(softmax.entropy, first);
    frame.loss.set(softmax.loss, first);
    frame.targets.set(softmax.target);
  });
  const pinned = pinnedOf(scene, base.layers, row, readerOf(cols, scene.query.lensColour));
  return { ...base, kind: 'lens', cols, k, ...frame, pinned };
}

/** Reads the number that the colour of the pinned token's cell shows. The row of the pin has no effect. */
function readerOf(columns: number, colour: LensColour): CellReader {
  return {
    dim: 1,
    columns,
    read: (record, row, { col }) => {
      const numbers = softmaxAt(record, row, col);
      return numbers === undefined ? undefined : colourNumber(numbers, colour);
    },
  };
}

function readOf(record: TensorRecord, row: number, cols: number, k: number): Read | undefined {
  const { shape } = record.header;
  const values = toFloats(record);
  if (values === undefined || shape.length !== 4 || shape[2] < cols || shape[3] !== k) {
    return undefined;
  }
  const softmax = softmaxOf(values, shape, row, cols);
  return softmax === null ? undefined : { values, shape, softmax };
}
