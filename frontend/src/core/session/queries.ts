import { formatLayers } from '../../protocol/layers';
import type { FeatureQuery, ViewQuery } from '../store/frames';
import { askedMembers, type ViewState } from './url_state';
import { type WatchedEntry } from './watched';

/** The members of a query in addition to those of the entry. */
export interface Asked {
  readonly plan: number;
  readonly phase: 'train' | 'eval';
  readonly layer: number;
  readonly step: number | null;
  /** The last step that may be shown: the step of a replay, or of a held view; null for no limit. */
  readonly until: number | null;
  readonly every: number;
  /** The id of another recording; '' for the hub's own run. */
  readonly run: string;
}

export function queryOf(watched: WatchedEntry, view: ViewState, asked: Asked): ViewQuery {
  const { facts, entry, direction, promptSet, form, firstToken, layers } = watched;
  const { row, layout, pin } = view;
  const { plan, layer, step, until, every, run } = asked;
  return {
    ...{ point: facts.flag, entry, direction, promptSet, form, firstToken },
    ...(askedMembers(view) as FeatureQuery),
    ...{ row, layout, pin, step, until, every, layer, plan, run },
    phase: asked.phase === 'eval' ? 1 : 0,
    lengths: watched.lengths.length === 0 ? null : watched.lengths,
    pointName: facts.name,
    numbers: facts.numbers ?? 'activation',
    layerRanges: facts.last_layer > 0 && layers.length > 0 ? formatLayers(layers) : null,
  };
}
