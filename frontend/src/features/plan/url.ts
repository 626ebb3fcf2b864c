import { draftMember, type UrlMembers } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** A draft of the trace plan, as plan_text.ts writes it; '' for the plan in force. */
    readonly plan: string;
  }
}

export const kUrl: UrlMembers = { plan: draftMember('plan') };
