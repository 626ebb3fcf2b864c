import {
  choiceMember,
  flagMember,
  textMember,
  type UrlMembers,
  wholeMember,
} from '../../core/session/url_state';
import { type Curve, kCurveNames } from './statistic';

declare module '../../core/session/url_state' {
  interface ViewState {
    readonly stat: Curve;
    /** Statistics are shown in multiples of their value at this step; null: unchanged. */
    readonly since: number | null;
    readonly logStat: boolean;
    /** Statistics over the steps as lines, or as a map of layers and steps. */
    readonly statAs: 'lines' | 'map';
    /** Column that sorts the table of statistics; with '-' the largest first; '' by layer. */
    readonly sort: string;
    /** Histograms show all bins, not only the filled ones. */
    readonly fullBins: boolean;
    /** Rows of the histogram ridge. */
    readonly ridge: 'steps' | 'layers';
  }
}

export const kUrl: UrlMembers = {
  stat: choiceMember('stat', kCurveNames),
  since: wholeMember('since', 1, null),
  logStat: flagMember('logstat', false),
  statAs: choiceMember('statas', ['lines', 'map']),
  sort: textMember('sort', 20),
  fullBins: flagMember('bins', false),
  ridge: choiceMember('ridge', ['steps', 'layers']),
};
