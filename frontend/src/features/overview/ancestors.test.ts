import { expect, test } from 'vitest';
import type { StepLoss } from '../../core/store/losses';
import type { OtherRunFacts, RunFacts } from '../../protocol/messages';
import { abandonedLines, ancestorsOf, pastLosses } from './ancestors';

type Parent = RunFacts['parent'];

const parentOf = (id: string, step: number): Parent => ({ id, name: id, step, checkpoint: '' });
const runOf = (id: string, parent?: Parent): OtherRunFacts =>
  ({ id, name: id, facts: { parent } }) as OtherRunFacts;
const idsOf = (parent: Parent, runs: readonly OtherRunFacts[]): string[] =>
  ancestorsOf({ parent }, runs).map(({ run, step }) => `${run.id} to ${step}`);

test('the chain of parents ends at a run that the page cannot read, and at a circle', () => {
  const runs = [runOf('a'), runOf('b', parentOf('a', 2)), runOf('c', parentOf('gone', 9))];
  expect(idsOf(parentOf('b', 4), runs)).toEqual(['b to 4', 'a to 2']);
  expect(idsOf(parentOf('c', 4), runs)).toEqual(['c to 4']);
  expect(idsOf(parentOf('gone', 4), runs)).toEqual([]);
  expect(idsOf(undefined, runs)).toEqual([]);
  expect(idsOf(parentOf('d', 4), [runOf('d', parentOf('d', 2))])).toEqual(['d to 4']);
  expect(ancestorsOf(null, runs)).toEqual([]);
});

test('the losses up to each checkpoint are the past, and those after it are abandoned', () => {
  const ancestors = ancestorsOf({ parent: parentOf('b', 4) }, [
    runOf('a'),
    runOf('b', parentOf('a', 2)),
  ]);
  const a: readonly StepLoss[] = [[1, 9], [2, 8], [3, 7.5]]; // prettier-ignore
  const b: readonly StepLoss[] = [[3, 7], [4, 6]]; // prettier-ignore
  expect(pastLosses(ancestors, { a, b })).toEqual([[1, 9], [2, 8], [3, 7], [4, 6]]); // prettier-ignore
  expect(pastLosses(ancestors, { b })).toEqual(b);
  expect(abandonedLines(ancestors, { a, b })).toEqual([
    { label: 'a after step 2', color: '--ink-muted', losses: a.slice(1) },
  ]);
  expect(abandonedLines(ancestors, {})).toEqual([]);
});
