import { expect, test } from 'vitest';
import { washOfLoss, washOfRank } from './token_colour';

test('a larger loss has more colour, and a guess among all tokens the most', () => {
  expect(washOfLoss(0, 256)).toBe('0%');
  expect(washOfLoss(Math.log(16), 256)).toBe('30%');
  expect([washOfLoss(Math.log(256), 256), washOfLoss(99, 256)]).toEqual(['60%', '60%']);
});

test('a better rank has more colour', () => {
  expect([washOfRank(0, 10), washOfRank(9, 10), washOfRank(0, 1)]).toEqual(['50%', '10%', '50%']);
});
