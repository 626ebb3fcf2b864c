import { runMember, type UrlMembers } from '../../core/session/url_state';

declare module '../../core/session/url_state' {
  interface ViewState {
    /** Ids of the other runs whose losses the curve shows. */
    readonly lossesOf: readonly string[];
  }
}

/** The number of colours for other runs. */
export const kMaxLosses = 5;

const kRun = runMember('runs');

function idsOf(text: string): readonly string[] | undefined {
  const ids = text.split('.').flatMap((id) => kRun.read(id) ?? []);
  return ids.length === 0 ? undefined : [...new Set(ids)].slice(0, kMaxLosses);
}

export const kUrl: UrlMembers = {
  lossesOf: {
    name: kRun.name,
    otherwise: [],
    read: idsOf,
    write: (ids) => (ids.length === 0 ? null : ids.join('.')),
  },
};
