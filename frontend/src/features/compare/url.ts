import {
  choiceMember,
  runMember,
  type UrlMembers,
  wholeMember,
} from '../../core/session/url_state';
import { kPhases } from '../../protocol/record';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** The ids of other recordings, or '' for this run. A uses the step and the phase of all views. */
    readonly runA: string;
    readonly runB: string;
    readonly stepB: number | null;
    readonly phaseB: 'train' | 'eval';
  }
}

export const kUrl: UrlMembers = {
  runA: runMember('runa'),
  runB: runMember('runb'),
  stepB: wholeMember('stepb', 1, null),
  phaseB: choiceMember('phaseb', kPhases),
};
