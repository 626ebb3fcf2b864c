import { expect, test } from 'vitest';
import type { OtherRunFacts } from '../../protocol/messages';
import type { Outcome } from './controller.svelte';
import { kDefaultView, kMaxOtherRuns, type ViewState } from './url_state';
import { kOtherColors, KeptRuns } from './kept_runs.svelte';

const ids = Array.from({ length: kMaxOtherRuns + 1 }, (_, index) =>
  String(index).padStart(16, 'a'),
);

class Stage {
  view: Pick<ViewState, 'otherRuns'> = { otherRuns: kDefaultView.otherRuns };
  readonly asked: string[] = [];
  outcome: Outcome<never> | { ok: true; value: unknown } = { ok: true, value: { max_bytes: 0 } };
  readonly kept: KeptRuns;

  constructor() {
    const stage = this; // eslint-disable-line @typescript-eslint/no-this-alias
    this.kept = new KeptRuns({
      get view() {
        return stage.view;
      },
      show: (change) => (this.view = { ...this.view, ...change }),
      link: {
        askRuns: () => this.asked.push('runs'),
        askLosses: (run) => this.asked.push(run),
      },
      control: {
        carryOut: (method: string) => {
          this.asked.push(method);
          return Promise.resolve(this.outcome as Outcome<never>);
        },
      },
    });
    const runs = ids.map((id) => ({ id, name: `run ${id}` }) as OtherRunFacts);
    this.kept.take({ kind: 'runs', runs });
  }
}

test('a chosen run is asked for its losses, and shown once they are here', () => {
  const { kept, asked } = new Stage();
  kept.toggle(ids[1]);
  expect(asked).toEqual([ids[1]]);
  expect(kept.shown).toEqual([]);
  kept.take({ kind: 'losses', run: ids[1], losses: [[5, 2]] });
  kept.take({ kind: 'losses', run: ids[1], losses: [[1, 4]] });
  expect(kept.shown.map(({ run, color, losses }) => [run.id, color, losses])).toEqual([
    [ids[1], kOtherColors[0], [[1, 4], [5, 2]]], // prettier-ignore
  ]);
  kept.toggle(ids[1]);
  expect(kept.shown).toEqual([]);
  expect(kept.isShown(ids[1])).toBe(false);
});

test('as many runs are shown as there are colours', () => {
  const { kept } = new Stage();
  for (const id of ids) kept.toggle(id);
  expect(kept.isFull).toBe(true);
  expect(ids.filter((id) => kept.isShown(id))).toEqual(ids.slice(0, kMaxOtherRuns));
  expect(kOtherColors).toHaveLength(kMaxOtherRuns);
});

test('runs of the address are asked for when the hub has told the runs', () => {
  const stage = new Stage();
  stage.view = { otherRuns: [ids[0], ids[2]] };
  stage.kept.take({ kind: 'runs', runs: [] });
  expect(stage.asked).toEqual([ids[0], ids[2]]);
});

test('a run that is kept has no limit', async () => {
  const { kept, ...stage } = new Stage();
  const params = { bytes: 1000, max_bytes: 5000 };
  kept.take({ kind: 'notification', notification: { event: 'recording', params } });
  await kept.keep();
  expect(stage.asked).toEqual(['run.keep']);
  expect(kept.size).toEqual({ bytes: 1000, max_bytes: 0 });
});

test('a refusal is told, and the limit stays', async () => {
  const stage = new Stage();
  const error = {
    code: 'not_recorded',
    message: 'this run is not recorded',
    where: undefined,
    remedy: undefined,
  };
  stage.outcome = { ok: false, error };
  await stage.kept.keep();
  expect(stage.kept.error).toEqual(error);
  expect(stage.kept.size).toBeNull();
});
