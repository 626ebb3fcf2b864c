import { choiceMember, type UrlMembers } from '../../core/session/url_state';
import { kLensColours, type LensColour } from './lens_colour';

declare module '../../core/session/url_state' {
  interface ViewState {
    readonly lensColour: LensColour;
  }
}

export const kUrl: UrlMembers = {
  lensColour: { ...choiceMember('lens', kLensColours), isAsked: true },
};
