import { render } from 'svelte/server';
import { expect, test } from 'vitest';
import type { Session } from '../../core/session/session';
import type { OtherRunFacts, RunFacts } from '../../protocol/messages';
import CheckpointRow from './checkpoint_row.svelte';

const kCommand = 'tensor-tracer train --save runs/a --load runs/a';
const kParent = { id: '00000000c0ffee00', name: 'demo', step: 100, checkpoint: '/a/step_00000100' };

function shown(
  run: Partial<RunFacts>,
  phase: string,
  others: Partial<OtherRunFacts>[] = [],
): string {
  const control = { viewOnly: false, others: false, waits: () => false };
  const happened = [{ kind: 'run', step: 50, what: 'checkpoint/50' }];
  const runState = { phase, step: 60 };
  const facts = { ...{ run, runState, control, happened }, otherRuns: others };
  const session = facts as unknown as Session;
  const { body } = render(CheckpointRow, { props: { session } });
  return body;
}
const textOf = (html: string): string =>
  html
    .replaceAll(/<!--.*?-->|<style.*?<\/style>/gs, '')
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();

test('a run that saves checkpoints shows the last one, a button and the command', () => {
  expect(textOf(shown({ resume_command: kCommand }, 'training'))).toBe(
    `Checkpoints last of step 50 Checkpoint now ${kCommand} Copy`,
  );
});

test('after the end and in a replay, the command stays', () => {
  for (const phase of ['finished', 'lost', 'replay']) {
    const text = textOf(shown({ resume_command: kCommand }, phase));
    expect(text).toBe(`Checkpoints last of step 50 ${kCommand} Copy`);
  }
});

test('the parent has a name, and a way to open it if the hub offers it', () => {
  const text = 'Resumed from step 100 of demo';
  expect(textOf(shown({}, 'training'))).toBe('');
  expect(textOf(shown({ parent: kParent }, 'training'))).toBe(text);
  const other = { id: kParent.id, name: 'demo', recording: '/a/run.ttrec' };
  expect(textOf(shown({ parent: kParent }, 'training', [other]))).toBe(`${text} Open…`);
  const live = shown({ parent: kParent }, 'training', [{ ...other, url: 'http://127.0.0.1:9/' }]);
  expect(live).toContain('href="http://127.0.0.1:9/"');
});
