import { choiceMember, type UrlMembers } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** The shown part of the view: the traits of the run, or ranked training data. */
    readonly traitsPart: 'run' | 'data';
    /** The values, or their difference to the first step. */
    readonly traitsAs: 'value' | 'difference';
    /** The vectors of the entry that are not shown, by their index. */
    readonly hiddenTraits: readonly number[];
  }
}

export const kUrl: UrlMembers = {
  traitsPart: choiceMember('traits', ['run', 'data']),
  traitsAs: choiceMember('traitsas', ['value', 'difference']),
  hiddenTraits: {
    name: 'hidden',
    otherwise: [],
    read: (text) => (/^\d{1,3}(\.\d{1,3})*$/.test(text) ? text.split('.').map(Number) : undefined),
    write: (hidden) => (hidden.length === 0 ? null : hidden.join('.')),
  },
};
