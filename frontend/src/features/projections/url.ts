import { choiceMember, type UrlMembers, wholeMember } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** The index in the entry's list of vectors. */
    readonly vector: number;
    /** The curves show the last token of a row, or the mean over its tokens. */
    readonly over: 'last' | 'mean';
  }
}

export const kUrl: UrlMembers = {
  vector: { ...wholeMember('vector', 0, 0), isAsked: true },
  over: choiceMember('over', ['last', 'mean']),
};
