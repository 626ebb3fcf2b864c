import { expect, test } from 'vitest';
import { dropLines, dropPlaces, kNoDrops, ofNewPlan, withDrops } from './drops';

test('what the recording dropped is told apart from what the page did not get', () => {
  const drops = withDrops(kNoDrops, { records: 120, events: 2, where: 'recording' });
  expect([drops.viewer, drops.trainer, drops.recording]).toEqual([0, 0, 122]);
  expect(dropPlaces(drops)).toBe('0 here, 0 at the trainer, 122 not recorded');
  expect(dropPlaces(withDrops(kNoDrops, { records: 3, where: 'viewer' }))).toBe(
    '3 here, 0 at the trainer',
  );
  expect(dropPlaces(kNoDrops)).toBe('');
});

test('drops are counted by side and by entry', () => {
  let drops = withDrops(kNoDrops, {
    records: 3,
    where: 'viewer',
    events: 0,
    entries: { '2': 1, '0': 2 },
  });
  drops = withDrops(drops, { records: 4, where: 'trainer', entries: { '0': 4 } });
  drops = withDrops(drops, { records: 1, where: 'viewer' });
  expect([drops.viewer, drops.trainer]).toEqual([4, 4]);
  const plan = { number: 1, entries: [{ point: 'MLP1' }] };
  expect(dropLines(drops, plan)).toEqual(['entry 1, MLP1: 6', 'entry 3: 1']);
  expect(dropLines(ofNewPlan(drops), plan)).toEqual([]);
  expect(ofNewPlan(drops).viewer).toBe(4);
});

test('what were no records counts too', () => {
  const drops = withDrops(kNoDrops, { records: 0, events: 7, where: 'viewer', entries: {} });
  expect(drops.viewer).toBe(7);
  expect(dropLines(drops, null)).toEqual(['messages: 7']);
});
