import { type Form, formOf } from './compressors';
import type { EmptyView, View, ViewFrame, ViewQuery } from './frames';
import type { RingStore, SeriesQuery } from './ring_store';
import type { Detail, Scene } from './scene';

/** How the step that a query asks for stands: here, on its way, or kept by nobody. */
export type Holding = 'here' | 'fetching' | 'gap';

/** How one kind of frame is built in the worker. Features contribute them. */
export interface ViewBuilder<F extends ViewFrame = ViewFrame> {
  readonly kind: F['kind'];
  /** Of the records that it is built from. */
  readonly form: Form;
  /** Whether it is the one of several of this form that is asked for. */
  fits(scene: Scene): boolean;
  /** Undefined for records that this version cannot show. */
  build(scene: Scene): F | undefined;
  /** The large arrays of the frame: they move to the page and are not copied. */
  buffersOf(frame: F): readonly ArrayBuffer[];
}

const kBuilders: ViewBuilder[] = [];

export function registerBuilders(builders: readonly ViewBuilder[]): void {
  kBuilders.push(...builders);
}

/** The large arrays of a view: they move to the page and are not copied. */
export function buffersOf(view: View): ArrayBuffer[] {
  if (!('frame' in view)) return [];
  const { frame } = view;
  return [...(kBuilders.find(({ kind }) => kind === frame.kind)?.buffersOf(frame) ?? [])];
}

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
  const form = formOf(scene.parts[0].header.compressor);
  return kBuilders.find((each) => each.form === form && each.fits(scene))?.build(scene);
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
