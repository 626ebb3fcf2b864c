import { formatLayers } from '../../protocol/layers';
import type { FeatureQuery, ViewQuery } from '../store/frames';
import { askedMembers, type ViewState } from './url_state';
import { promptLengths, type WatchedEntry } from './watched';

/** What a query asks for beside the entry. */
export interface Asked {
  readonly plan: number;
  readonly tokenizer: string;
  readonly phase: 'train' | 'eval';
  readonly layer: number;
  readonly step: number | null;
  /** Nothing later is shown: a replay has come so far, or the view is held. */
  readonly until: number | null;
  readonly every: number;
  /** Another recording; '': the hub's own run. */
  readonly run: string;
}

export function queryOf(watched: WatchedEntry, view: ViewState, asked: Asked): ViewQuery {
  const { facts, entry, direction, promptSet, form, firstToken, layers } = watched;
  const { row, layout, pin } = view;
  const { plan, tokenizer, layer, step, until, every, run } = asked;
  return {
    ...{ point: facts.flag, entry, direction, promptSet, form, firstToken },
    ...(askedMembers(view) as FeatureQuery),
    ...{ row, layout, pin, step, until, every, layer, plan, run },
    phase: asked.phase === 'eval' ? 1 : 0,
    lengths: promptLengths(watched, tokenizer),
    pointName: facts.name,
    numbers: facts.numbers ?? 'activation',
    layerRanges: facts.last_layer > 0 && layers.length > 0 ? formatLayers(layers) : null,
  };
}
