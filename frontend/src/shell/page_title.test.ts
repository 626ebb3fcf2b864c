import { expect, test } from 'vitest';
import { titleOf } from './page_title';

const kFacts = { chip: { word: 'live' }, newestStep: 1969, latest: { loss: 1.9412 }, warnings: [] };

test('the title has the state, the step, the loss and the name of the run', () => {
  expect(titleOf(kFacts, 'my run')).toBe('▶ 1\u202f969 · 1.94 · my run');
  expect(titleOf({ ...kFacts, chip: { word: 'paused' } }, 'a')).toBe('⏸ 1\u202f969 · 1.94 · a');
  expect(titleOf({ ...kFacts, chip: { word: 'reconnecting' } }, 'a')).toMatch(/^⚠ /);
  expect(titleOf({ ...kFacts, warnings: ['alarm'] }, 'a')).toMatch(/^⚠ /);
});

test('what is not known yet is left out', () => {
  const facts = { chip: { word: 'starting' }, newestStep: 0, latest: null, warnings: [] };
  expect(titleOf(facts, 'my run')).toBe('… my run');
  expect(titleOf({ ...kFacts, latest: { loss: null } }, 'a')).toContain('NaN');
});
