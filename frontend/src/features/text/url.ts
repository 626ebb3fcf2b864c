import { type UrlMembers, wholeMember } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** Token of the row whose predictions are shown; null: the first. */
    readonly token: number | null;
  }
}

export const kUrl: UrlMembers = { token: wholeMember('token', 0, null) };
