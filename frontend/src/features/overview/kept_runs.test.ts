import { expect, test } from 'vitest';
import type { Outcome } from '../../core/session/controller.svelte';
import type { OtherRunFacts, RunFacts } from '../../protocol/messages';
import { KeptRuns, kLossColors } from './kept_runs.svelte';
import { kMaxLosses } from './url';

const ids = Array.from({ length: kMaxLosses + 1 }, (_, index) => String(index).padStart(16, 'a'));

class Stage {
  view: { readonly lossesOf: readonly string[] } = { lossesOf: [] };
  otherRuns: readonly OtherRunFacts[] = [];
  run: RunFacts | null = null;
  readonly asked: string[] = [];
  outcome: unknown = { ok: true, value: { max_bytes: 0 } };
  readonly link = {
    lossesOf: (run: string) => {
      this.asked.push(run);
      return Promise.resolve([[1, this.asked.length] as const]);
    },
  };
  readonly control = {
    carryOut: <T>(method: string) => {
      this.asked.push(method);
      return Promise.resolve(this.outcome as Outcome<T>);
    },
  };
  readonly kept = new KeptRuns(this);

  constructor() {
    this.tell();
  }

  /** The hub sends its list of runs. */
  tell(last_step = 1): void {
    this.otherRuns = ids.map(
      (id) => ({ id, name: `run ${id}`, last_step, facts: {} }) as OtherRunFacts,
    );
  }

  show(change: { readonly lossesOf?: readonly string[] }): void {
    this.view = { lossesOf: change.lossesOf ?? this.view.lossesOf };
  }
}

test('the losses of a chosen run are asked for once, and again when it has gone on', async () => {
  const stage = new Stage();
  const { kept, asked } = stage;
  kept.toggle(ids[1]);
  await kept.update();
  await kept.update();
  expect(asked).toEqual([ids[1]]);
  expect(kept.lines).toEqual([{ label: `run ${ids[1]}`, color: kLossColors[0], losses: [[1, 1]] }]);
  stage.tell();
  await kept.update();
  expect(asked).toEqual([ids[1]]);
  stage.tell(2);
  await kept.update();
  expect(asked).toEqual([ids[1], ids[1]]);
  expect(kept.lines[0].losses).toEqual([[1, 2]]);
  kept.toggle(ids[1]);
  expect(kept.lines).toEqual([]);
});

test('the losses of the parent are asked for without a choice', async () => {
  const stage = new Stage();
  const { kept, asked } = stage;
  stage.run = { parent: { id: ids[2], name: 'p', step: 5, checkpoint: '' } } as RunFacts;
  await kept.update();
  expect(asked).toEqual([ids[2]]);
  expect(kept.past).toEqual([[1, 1]]);
  expect(kept.lines).toEqual([]);
});

test('as many runs are shown as there are colours', () => {
  const { kept } = new Stage();
  for (const id of ids) kept.toggle(id);
  expect(kept.isFull).toBe(true);
  expect(ids.filter((id) => kept.isShown(id))).toEqual(ids.slice(0, kMaxLosses));
  expect(kLossColors).toHaveLength(kMaxLosses);
});

test('a run of the address that the hub does not offer is left alone', async () => {
  const { kept, asked, ...stage } = new Stage();
  stage.view = { lossesOf: ['f'.repeat(16)] };
  await kept.update();
  expect(asked).toEqual([]);
  expect(kept.lines).toEqual([]);
});

test('the hub tells the size; a refusal to keep the run is told', async () => {
  const stage = new Stage();
  const { kept } = stage;
  const params = { bytes: 1000, max_bytes: 5000 };
  kept.onNotification({ event: 'recording', params });
  await kept.keep();
  expect(stage.asked).toEqual(['run.keep']);
  expect(kept.size).toEqual(params);
  expect(kept.error).toBeNull();
  stage.outcome = {
    ok: false,
    error: { code: 'not_recorded', message: 'this run is not recorded' },
  };
  await kept.keep();
  expect(kept.error?.message).toBe('this run is not recorded');
});
