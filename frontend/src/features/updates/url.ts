import { choiceMember, type UrlMembers } from '../../core/session/url_state';
import { kByName, kRatioColumn } from './update_rows';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** The column that is sorted and drawn, or `kByName`. */
    readonly updatesColumn: number;
    readonly updatesOrder: 'down' | 'up';
    /** The parameters that are drawn, the chosen one first. */
    readonly updatesDrawn: readonly number[];
  }
}

export const kUrl: UrlMembers = {
  updatesColumn: {
    name: 'ucolumn',
    otherwise: kRatioColumn,
    read: (text) => (text === 'name' ? kByName : wholeOf(text)),
    write: (column) => (column === kByName ? 'name' : String(column)),
    isAsked: true,
  },
  updatesOrder: choiceMember('uorder', ['down', 'up']),
  updatesDrawn: {
    name: 'udrawn',
    otherwise: [0],
    read: (text) => {
      const numbers = text.split('.').map(wholeOf);
      return numbers.every((each) => each !== undefined) ? numbers : undefined;
    },
    write: (numbers) => (numbers.join('.') === '0' ? null : numbers.join('.')),
    isAsked: true,
  },
};

function wholeOf(text: string): number | undefined {
  return /^\d{1,6}$/.test(text) ? Number(text) : undefined;
}
