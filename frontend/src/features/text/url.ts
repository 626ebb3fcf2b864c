import { choiceMember, type UrlMembers, wholeMember } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** The token whose predictions are shown; null: the first token, or the last token of a prompt. */
    readonly token: number | null;
    /** The colour of a token shows its own loss, or the rank of its successor. */
    readonly tokenColour: 'loss' | 'rank';
  }
}

export const kUrl: UrlMembers = {
  token: wholeMember('token', 0, null),
  tokenColour: choiceMember('color', ['loss', 'rank']),
};
