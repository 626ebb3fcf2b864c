import { choiceMember, type UrlMembers, wholeMember } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** Token of the row whose predictions are shown; null: the first, of a prompt the last. */
    readonly token: number | null;
    /** Of a token: how well it was predicted itself, or the rank of its successor. */
    readonly tokenColour: 'loss' | 'rank';
  }
}

export const kUrl: UrlMembers = {
  token: wholeMember('token', 0, null),
  tokenColour: choiceMember('color', ['loss', 'rank']),
};
