import { pinnedOf, tokenReader } from '../../core/store/pinned';
import { type Scene, tokenBaseOf } from '../../core/store/scene';
import { layersByTokens } from '../../core/store/token_maps';
import { rowSumsOf, sumsOverSteps } from '../../core/store/token_sums';
import type { ContributionFrame } from './frame';

/** The contribution of a block at each token, from records of [rows, tokens, 1]. */
export function contributionView(scene: Scene): ContributionFrame | undefined {
  const { shape } = scene.parts[0].header;
  const found = tokenBaseOf(scene, 0, shape[1]);
  if (found === undefined) return undefined;
  const { base, row, cols } = found;
  const byLayer = base.layers.map(
    (layer) => rowSumsOf(scene, scene.group.layers.get(layer), row.name, 'mean')?.[0] ?? Number.NaN,
  );
  return {
    ...base,
    kind: 'contribution',
    byLayer: Float64Array.from(byLayer),
    tokenMap: layersByTokens(scene, base.layers, row.name, cols, (values, at) => values[at]),
    pinned: pinnedOf(scene, base.layers, row, tokenReader(cols, 0)),
    overSteps: sumsOverSteps(scene, base.layers, row.name, 0, 'mean'),
  };
}
