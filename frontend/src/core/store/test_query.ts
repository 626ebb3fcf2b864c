import type { ViewFrame, ViewQuery } from './frames';
import type { RingStore } from './ring_store';
import type { Detail } from './scene';
import { buildView } from './view';

const kPlain: Partial<ViewQuery> = {
  point: 7,
  entry: 0,
  plan: 1,
  phase: 0,
  direction: 0,
  promptSet: 0,
  form: 'values',
  firstToken: 0,
  lengths: null,
  layer: 1,
  row: 0,
  head: 0,
  vector: 0,
  aggregate: 'mean',
  layout: 'one',
  pin: null,
  step: null,
  until: null,
  every: 1,
  pointName: 'HiddenStates',
  numbers: 'activation',
  layerRanges: null,
  run: '',
};

/**
 * A query for tests: the newest step of layer 1 of point 7, plan entry 0, tile by tile. The tests of a
 * feature add the members of the feature.
 */
export const kTestQuery = kPlain as ViewQuery;

/** The frame of one kind; throws if the view has no frame or a frame of another kind. */
export function frameOf<K extends ViewFrame['kind']>(
  store: RingStore,
  kind: K,
  query: Partial<ViewQuery> = {},
  detail: Detail = 'shown',
): Extract<ViewFrame, { kind: K }> {
  const view = buildView(store, { ...kTestQuery, ...query }, 'here', detail);
  if (!('frame' in view)) throw new Error(view.empty.reason);
  if (view.frame.kind !== kind) throw new Error(view.frame.kind);
  return view.frame as Extract<ViewFrame, { kind: K }>;
}
