import { describe, expect, test } from 'vitest';
import { keptSegments, stepFrom, trackOf, trackPaint } from './step_track';

describe('stepFrom', () => {
  test('goes through the history, where it reaches that far', () => {
    const track = trackOf([100, 110, 120], { first: 7, last: 90 }, 10);
    expect([track.first, track.last]).toEqual([10, 120]);
    expect(stepFrom(track, 110, -1)).toBe(100);
    expect(stepFrom(track, 100, -1)).toBe(90);
    expect(stepFrom(track, 10, -1)).toBe(10);
    expect(stepFrom(track, 50, 1)).toBe(60);
    expect(stepFrom(track, 110, 1)).toBeNull();
  });

  test('asks the history for a step that a slow page missed', () => {
    expect(stepFrom(trackOf([5, 9], { first: 1, last: 5 }, 1), 9, -1)).toBe(8);
  });

  test('without a history only what is kept is passed', () => {
    const track = trackOf([5, 9, 12], null, 1);
    expect(stepFrom(track, 9, -1)).toBe(5);
    expect(stepFrom(track, 5, -1)).toBe(5);
    expect(stepFrom(track, 5, 1)).toBe(9);
    expect(stepFrom(track, 9, 1)).toBeNull();
  });
});

test('the track shows what is kept, and gaps between', () => {
  const track = trackOf([1, 2, 3, 50, 101], { first: 1, last: 101 }, 1);
  expect(keptSegments(track)).toEqual([
    { from: 0, to: 2.5 },
    { from: 48.5, to: 49.5 },
    { from: 99.5, to: 100 },
  ]);
  expect(trackPaint(track, 'red', 'gray').split('), ')).toHaveLength(4);
  expect(trackPaint(trackOf([], null, 1), 'red', 'gray')).toBe('');
});
