import { draftMember, textMember, type UrlMembers } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** A draft of an intervention: its name, and its text as it was typed. */
    readonly programName: string;
    readonly program: string;
  }
}

export const kMaxProgramName = 64;

export const kUrl: UrlMembers = {
  programName: textMember('pname', kMaxProgramName),
  program: draftMember('program'),
};
