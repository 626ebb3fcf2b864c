import { attentionView } from '../../features/attention/attention_view';
import { formOf } from './form';
import type { EmptyView, View, ViewFrame, ViewQuery } from './frames';
import { layersView } from '../../features/maps/layers_view';
import { mapsView } from '../../features/maps/maps_view';
import { overView } from '../../features/maps/over_view';
import { projectionView } from '../../features/projections/projection_view';
import type { RingStore, SeriesQuery } from './ring_store';
import { baseOf, type Detail, type Scene } from './scene';
import { statsView } from '../../features/statistics/stats_view';
import { topKView } from '../../features/text/topk_view';

/** How the step that a query asks for stands: here, on its way, or kept by nobody. */
export type Holding = 'here' | 'fetching' | 'gap';

export function seriesOf(query: ViewQuery): SeriesQuery {
  const { point, entry, plan, phase, direction, promptSet, form } = query;
  return { point, entry, plan, phase, direction, promptSet, form };
}

/** Builds what the query asks for from what the store holds. */
export function buildView(
  store: RingStore,
  query: ViewQuery,
  holding: Holding = 'here',
  detail: Detail = 'shown',
): View {
  const series = seriesOf(query);
  const all = store.steps(series);
  const { until } = query;
  const steps = until === null ? all : all.filter((step) => step <= until);
  if (holding === 'gap') return { empty: { ...emptyOf(query, 'gap'), steps } };
  const group =
    query.step === null
      ? store.newest(series, steps)
      : store.at(series, nearest(steps, query.step));
  if (group === undefined) return { empty: emptyOf(query, holding === 'here' ? 'none' : holding) };
  const layer = nearest(
    [...group.layers.keys()].sort((a, b) => a - b),
    query.layer,
  );
  const parts = group.layers.get(layer) ?? [];
  const frame = frameOf({ store, query, series, steps, group, layer, parts, detail });
  if (frame !== undefined) return { frame };
  const { dtype, compressor, shape } = parts[0].header;
  return { empty: { ...emptyOf(query, 'unreadable'), steps, dtype, compressor, shape } };
}

/** Undefined for a record that this version cannot show. */
function frameOf(scene: Scene): ViewFrame | undefined {
  const { compressor, shape } = scene.parts[0].header;
  switch (formOf(compressor)) {
    case 'values':
      return shape.length === 4 ? attentionView(scene) : tilesView(scene);
    case 'stats':
      return statsView(scene);
    case 'projection':
      return projectionView(scene);
    case 'topk':
      return topKView(scene);
    case 'empty': {
      const passed = [...scene.group.layers.keys()].sort((a, b) => a - b);
      return { ...baseOf(scene), kind: 'passed', passed };
    }
    case 'other':
      return undefined;
  }
}

function tilesView(scene: Scene): ViewFrame | undefined {
  switch (scene.query.layout) {
    case 'one':
      return mapsView(scene);
    case 'all':
      return layersView(scene);
    case 'over':
      return overView(scene);
  }
}

function emptyOf(query: ViewQuery, reason: EmptyView['reason']): EmptyView {
  return { query, reason, steps: [], dtype: 0, compressor: 0, shape: [] };
}

function nearest(sorted: readonly number[], wanted: number): number {
  return sorted.reduce(
    (best, each) => (Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best),
    sorted[0] ?? 0,
  );
}
