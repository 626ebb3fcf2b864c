import { pinnedOf, tokenReader } from '../../core/store/pinned';
import { type Scene, tokenBaseOf } from '../../core/store/scene';
import { layersByTokens } from '../../core/store/token_maps';
import { rowSumsOf, sumsOverSteps } from '../../core/store/token_sums';
import type { HealthFrame } from './frame';
import { kMeasures } from './measures';

/** One number for each head, from records of [rows, tokens, heads]. */
export function healthView(scene: Scene): HealthFrame | undefined {
  const { shape } = scene.parts[0].header;
  const measure = kMeasures[scene.query.pointName];
  const found = tokenBaseOf(scene, 0, shape[1]);
  if (measure === undefined || found === undefined) return undefined;
  const { base, row, cols } = found;
  const heads = shape[2];
  const head = Math.min(scene.query.head, heads - 1);
  const byHead = new Float64Array(base.layers.length * heads).fill(Number.NaN);
  base.layers.forEach((layer, index) => {
    const sums = rowSumsOf(scene, scene.group.layers.get(layer), row.name, measure.sum);
    if (sums !== undefined) byHead.set(sums.subarray(0, heads), index * heads);
  });
  return {
    ...base,
    kind: 'health',
    heads,
    head,
    byHead,
    tokenMap: layersByTokens(scene, base.layers, row.name, cols, (values, at) => values[at + head]),
    pinned: pinnedOf(scene, base.layers, row, tokenReader(cols, head)),
    overSteps: sumsOverSteps(scene, base.layers, row.name, head, measure.sum),
  };
}
