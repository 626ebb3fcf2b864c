import { choiceMember, textMember, type UrlMembers } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** What is shown of a typed prompt: without the active programs, with them, or on − off. */
    readonly programs: 'off' | 'on' | 'difference';
    /** The entry that is shown of it; '': the first. */
    readonly promptPoint: string;
  }
}

export const kUrl: UrlMembers = {
  programs: choiceMember('programs', ['off', 'on', 'difference']),
  promptPoint: textMember('prompt-point', 200),
};
