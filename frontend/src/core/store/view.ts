import { type Form, formOf } from './compressors';
import type { EmptyView, View, ViewFrame, ViewQuery } from './frames';
import type { RingStore, SeriesQuery } from './ring_store';
import type { Detail, Scene } from './scene';

/** The state of a query's step: in the store, requested from the history, or not available. */
export type Holding = 'here' | 'fetching' | 'gap';

/** Builds one kind of frame in the worker. Features contribute builders. */
export interface ViewBuilder<F extends ViewFrame = ViewFrame> {
  readonly kind: F['kind'];
  /** The form of the records from which the frame is built. */
  readonly form: Form;
  /** Whether the query wants this builder, if there are several for the form. */
  fits(scene: Scene): boolean;
  /** Builds the frame; undefined for records that this version cannot show. */
  build(scene: Scene): F | undefined;
  /** The large arrays of the frame. They are transferred to the page without a copy. */
  buffersOf(frame: F): readonly ArrayBuffer[];
  /** Whether its frames of this query have curves over the steps, whose past records are fetched. */
  hasCurves?(query: ViewQuery): boolean;
  /** Loads the code; null if it is loaded. */
  readonly load?: () => Promise<void> | null;
}

const kPauseMs = 1000;
const kBuilders: ViewBuilder[] = [];
const kLoading = new Set<Promise<void>>();

export function registerBuilders(builders: readonly ViewBuilder[]): void {
  kBuilders.push(...builders);
}

/** The part of a builder that is needed only to build a frame. */
export type BuilderCode<F extends ViewFrame> = Pick<ViewBuilder<F>, 'build' | 'buffersOf'>;

/** A builder whose code is a chunk. It is loaded when one of its frames is first needed. */
export function laterBuilder<F extends ViewFrame>(
  facts: Pick<ViewBuilder<F>, 'kind' | 'form' | 'fits' | 'hasCurves'>,
  fetchCode: () => Promise<BuilderCode<F>>,
): ViewBuilder<F> {
  let code: BuilderCode<F> | undefined;
  let loading: Promise<void> | undefined;
  return {
    ...facts,
    build: (scene) => code?.build(scene),
    buffersOf: (frame) => code?.buffersOf(frame) ?? [],
    load: () => {
      if (code !== undefined) return null;
      loading ??= fetchCode()
        .then((came) => void (code = came), pause)
        .finally(() => (loading = undefined));
      return loading;
    },
  };
}

/** Waits before the next try, because the hub may be available then. */
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, kPauseMs));
}

/** Loads the code of all builders in advance. */
export async function loadBuilders(): Promise<void> {
  await Promise.all(kBuilders.flatMap((builder) => builder.load?.() ?? []));
}

/** Resolves when the code that a view needs is loaded, or a short time after loading has failed. */
export async function buildersLoaded(): Promise<void> {
  await Promise.all(kLoading);
}

/** Whether the frames of a query have curves over the steps, according to a builder of its form. */
export function hasCurves(query: ViewQuery): boolean {
  return kBuilders.some((each) => each.form === query.form && each.hasCurves?.(query) === true);
}

/** The large arrays of a view. They are transferred to the page without a copy. */
export function buffersOf(view: View): ArrayBuffer[] {
  if (!('frame' in view)) return [];
  const { frame } = view;
  return [...(kBuilders.find(({ kind }) => kind === frame.kind)?.buffersOf(frame) ?? [])];
}

export function seriesOf(query: ViewQuery): SeriesQuery {
  const { point, entry, plan, phase, direction, promptSet, form } = query;
  return { point, entry, plan, phase, direction, promptSet, form };
}

/** Builds the view of the query from the records in the store. */
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
  const scene = { store, query, series, steps, group, layer, parts, detail };
  const builder = builderOf(scene);
  if (builder !== undefined && isLoading(builder)) return { empty: emptyOf(query, 'loading') };
  const frame = builder?.build(scene);
  if (frame !== undefined) return { frame };
  const { dtype, compressor, shape } = parts[0].header;
  return { empty: { ...emptyOf(query, 'unreadable'), steps, dtype, compressor, shape } };
}

/** The builder of a scene; undefined for a record that this version does not know. */
function builderOf(scene: Scene): ViewBuilder | undefined {
  const form = formOf(scene.parts[0].header.compressor);
  return kBuilders.find((each) => each.form === form && each.fits(scene));
}

function isLoading({ load }: ViewBuilder): boolean {
  const loading = load?.() ?? null;
  if (loading === null || kLoading.has(loading)) return loading !== null;
  kLoading.add(loading);
  void loading.then(() => kLoading.delete(loading));
  return true;
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
