import { expect, test } from 'vitest';
import { registerFeatures } from './registry';
import { askedMembers, defaultView, formatViewState, parseViewState } from '../session/url_state';

declare module '../session/url_state' {
  interface ViewState {
    readonly probe?: number;
  }
}

test('a feature brings its own part of the view: no list of core names it', () => {
  const probe = { name: 'probe', otherwise: undefined, read: Number, isAsked: true };
  registerFeatures([{ url: { probe } }]);
  const view = parseViewState('?probe=7');
  expect(view.probe).toBe(7);
  expect(formatViewState(view, defaultView())).toBe('?probe=7');
  expect(askedMembers(view)).toMatchObject({ probe: 7 });
});
