import { formatLayers } from '../../protocol/layers';
import type { ViewQuery } from '../store/frames';
import type { ViewState } from './url_state';
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

/** What a query takes from the view. */
type Shown = Pick<ViewState, 'row' | 'head' | 'vector' | 'aggregate' | 'layout' | 'pin'>;

export function queryOf(
  watched: WatchedEntry,
  { row, head, vector, aggregate, layout, pin }: Shown,
  asked: Asked,
): ViewQuery {
  const { facts, entry, direction, promptSet, form, firstToken, layers } = watched;
  const { plan, tokenizer, layer, step, until, every, run } = asked;
  return {
    ...{ point: facts.flag, entry, direction, promptSet, form, firstToken },
    ...{ row, head, vector, aggregate, layout, pin, step, until, every, layer, plan, run },
    phase: asked.phase === 'eval' ? 1 : 0,
    lengths: promptLengths(watched, tokenizer),
    pointName: facts.name,
    layerRanges: facts.last_layer > 0 && layers.length > 0 ? formatLayers(layers) : null,
  };
}
