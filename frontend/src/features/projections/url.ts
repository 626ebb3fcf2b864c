import { choiceMember, type UrlMembers, wholeMember } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** By its place in the entry's list. */
    readonly vector: number;
    /** What of a row's projections the curves show. */
    readonly over: 'last' | 'mean';
  }
}

export const kUrl: UrlMembers = {
  vector: { ...wholeMember('vector', 0, 0), isAsked: true },
  over: choiceMember('over', ['last', 'mean']),
};
