import { choiceMember, type UrlMembers } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** What of its tiles a cell shows. */
    readonly aggregate: 'mean' | 'absmax';
  }
}

export const kUrl: UrlMembers = {
  aggregate: { ...choiceMember('agg', ['mean', 'absmax']), isAsked: true },
};
