import { choiceMember, textMember, type UrlMembers } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** The shown side of a typed prompt: without the active programs, with them, or on − off. */
    readonly programs: 'off' | 'on' | 'difference';
    /** The shown entry of the prompt; '': the first entry. */
    readonly promptPoint: string;
  }
}

export const kUrl: UrlMembers = {
  programs: choiceMember('programs', ['off', 'on', 'difference']),
  promptPoint: textMember('prompt-point', 200),
};
