import { idsOf, layerAxis, positionAxis } from '../../core/registry/arrays';
import type { ExportArray, FrameFiles } from '../../core/registry/files';
import type { LensFrame } from './frame';
import { valueAt } from './lens_cells';

/** Numbers by layer and token, and the best token of each cell. */
export const kLensFiles: FrameFiles<LensFrame> = {
  arraysOf: (frame) => {
    const axes = [layerAxis(frame), positionAxis(frame)];
    const shape = [frame.layers.length, frame.cols];
    const of = (name: string, text: string, data: ExportArray['data']): ExportArray => ({
      ...{ name, text, axes, shape, data },
    });
    const best = frame.loss.map((_, cell) =>
      valueAt(frame, Math.floor(cell / frame.cols), cell % frame.cols, 'best'),
    );
    return [
      of('best', 'id of the best token; -1: not captured', bestIds(frame)),
      of('best_probability', 'probability of the best token', best),
      of('loss', 'of the true next token, in nats', frame.loss.slice()),
      of('entropy', 'of the prediction, in nats', frame.entropy.slice()),
      ...idsOf(frame, positionAxis(frame)),
    ];
  },
  hasAllLayers: true,
};

function bestIds({ ids, k }: LensFrame): Int32Array<ArrayBuffer> {
  return ids.filter((_, at) => at % k === 0);
}
