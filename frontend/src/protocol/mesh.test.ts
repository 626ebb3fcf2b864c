import { expect, test } from 'vitest';
import { meshText, rankCount } from './mesh';

test('a mesh names its axes, and context parallelism if the run has it', () => {
  const mesh = { tensor: 2, pipeline: 3, data: 4 };
  expect(meshText(mesh)).toBe('TP 2 · PP 3 · DP 4');
  expect(rankCount(mesh)).toBe(24);
  expect(meshText({ ...mesh, context: 5 })).toBe('TP 2 · CP 5 · PP 3 · DP 4');
  expect(rankCount({ ...mesh, context: 5 })).toBe(120);
});
