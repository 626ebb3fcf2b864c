import {
  choiceMember,
  numberMember,
  textMember,
  type UrlMembers,
  wholeMember,
} from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** By its place in the entry's list. */
    readonly vector: number;
    /** What of a row's projections the curves show. */
    readonly over: 'last' | 'mean';
    /** A projection beyond it raises the alarm, in whatever view the page is. */
    readonly threshold: number | null;
    /** Which projection, as alarm_target.ts writes it; '' where there is no threshold. */
    readonly alarmTarget: string;
  }
}

export const kUrl: UrlMembers = {
  vector: { ...wholeMember('vector', 0, 0), isAsked: true },
  over: choiceMember('over', ['last', 'mean']),
  threshold: numberMember('thr'),
  alarmTarget: {
    ...textMember('guard', 240),
    write: (target, { threshold }) => (threshold === null ? null : target),
  },
};
