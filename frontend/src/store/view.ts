import { attentionView } from './attention_view';
import { formOf } from './form';
import type { EmptyView, View, ViewFrame, ViewQuery } from './frames';
import { mapsView } from './maps_view';
import { projectionView } from './projection_view';
import type { RingStore, SeriesQuery } from './ring_store';
import { baseOf, type Scene } from './scene';
import { statsView } from './stats_view';
import { topKView } from './topk_view';

/** Builds what the query asks for from what the store holds. */
export function buildView(store: RingStore, query: ViewQuery): View {
  const { point, entry, plan, phase, direction, promptSet, form } = query;
  const series: SeriesQuery = { point, entry, plan, phase, direction, promptSet, form };
  const steps = store.steps(series);
  const group =
    query.step === null
      ? store.newest(series, steps)
      : store.at(series, nearest(steps, query.step));
  if (group === undefined) return { empty: emptyOf(query, 'none') };
  const layer = nearest(
    [...group.layers.keys()].sort((a, b) => a - b),
    query.layer,
  );
  const parts = group.layers.get(layer) ?? [];
  const frame = frameOf({ store, query, series, steps, group, layer, parts });
  if (frame !== undefined) return { frame };
  const { dtype, compressor, shape } = parts[0].header;
  return { empty: { ...emptyOf(query, 'unreadable'), dtype, compressor, shape } };
}

/** Undefined for a record that this version cannot show. */
function frameOf(scene: Scene): ViewFrame | undefined {
  const { compressor, shape } = scene.parts[0].header;
  switch (formOf(compressor)) {
    case 'values':
      return shape.length === 4 ? attentionView(scene) : mapsView(scene);
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

function emptyOf(query: ViewQuery, reason: EmptyView['reason']): EmptyView {
  return { query, reason, dtype: 0, compressor: 0, shape: [] };
}

function nearest(sorted: readonly number[], wanted: number): number {
  return sorted.reduce(
    (best, each) => (Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best),
    sorted[0] ?? 0,
  );
}
