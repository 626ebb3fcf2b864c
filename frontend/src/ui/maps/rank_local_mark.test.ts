import { render } from 'svelte/server';
import { expect, test } from 'vitest';
import { pointSchema } from '../../protocol/messages';
import RankLocalMark from './rank_local_mark.svelte';

function bodyOf(placement: unknown): string {
  const point = { name: 'gate_up.output', flag: 9, text: 'values of tensor rank 0', placement };
  return render(RankLocalMark, { props: { facts: pointSchema(point, 'point') } }).body;
}

test('a point whose layout nothing knows has a mark, and no other point', () => {
  expect(bodyOf({ tensor: 'rank-local', data: 'shard(0)' })).toContain('tensor rank 0 only');
  for (const placement of [{ tensor: 'replicate' }, undefined]) {
    expect(bodyOf(placement)).not.toContain('tensor rank 0 only');
  }
});
