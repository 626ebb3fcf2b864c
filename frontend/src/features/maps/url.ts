import { choiceMember, type UrlMembers } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** The reduction over the tiles in a cell of a layer. */
    readonly aggregate: 'mean' | 'absmax';
  }
}

export const kUrl: UrlMembers = {
  aggregate: { ...choiceMember('agg', ['mean', 'absmax']), isAsked: true },
};
