import { choiceMember, type UrlMembers } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    readonly stat: 'mean' | 'std' | 'norm' | 'bad';
    /** Rows of the histogram ridge. */
    readonly ridge: 'steps' | 'layers';
  }
}

export const kUrl: UrlMembers = {
  stat: choiceMember('stat', ['mean', 'std', 'norm', 'bad']),
  ridge: choiceMember('ridge', ['steps', 'layers']),
};
