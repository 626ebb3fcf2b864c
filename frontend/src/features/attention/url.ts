import { type UrlMembers, wholeMember } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    readonly head: number;
  }
}

export const kUrl: UrlMembers = { head: { ...wholeMember('head', 0, 0), isAsked: true } };
