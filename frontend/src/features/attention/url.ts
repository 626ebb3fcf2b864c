import { choiceMember, type UrlMembers, wholeMember } from '../../core/session/url_state';
import { kMeanHead } from './frame';
import type { Shade } from './shade';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** `kMeanHead` stands for the average of all heads. */
    readonly head: number;
    readonly shade: Shade;
  }
}

const kHead = wholeMember('head', 0, 0);

export const kUrl: UrlMembers = {
  head: {
    ...kHead,
    read: (text) => (text === 'mean' ? kMeanHead : kHead.read(text)),
    write: (head) => (head === kMeanHead ? 'mean' : String(head)),
    isAsked: true,
  },
  shade: choiceMember('shade', ['row', 'sqrt', 'linear']),
};
