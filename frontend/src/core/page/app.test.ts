import { beforeEach, expect, test, vi } from 'vitest';
import type { Notification } from '../../protocol/messages';
import { kTestQuery } from '../store/test_query';
import type { FromWorker, Slot, ToWorker } from '../worker/link_messages';
import { App } from './app.svelte';
import { compressorFor } from '../session/plan_book.svelte';

/** A worker that does nothing, as the page sees it. */
class FakeWorker {
  static last: FakeWorker;
  readonly posted: ToWorker[] = [];
  onmessage: (event: { data: FromWorker }) => void = () => undefined;

  constructor() {
    FakeWorker.last = this;
  }

  postMessage(message: ToWorker): void {
    this.posted.push(message);
  }

  view(slot: Slot): void {
    const nothing = { reason: 'none', steps: [], dtype: 0, compressor: 0, shape: [] } as const;
    this.onmessage({
      data: { kind: 'view', slot, view: { empty: { query: kTestQuery, ...nothing } } },
    });
  }

  tell(event: 'run' | 'plan', params: object): void {
    const notification = { event, params } as unknown as Notification;
    this.onmessage({
      data: { kind: 'events', events: [{ kind: 'notification', notification }] },
    });
  }

  get drawn(): Slot[] {
    return this.posted.flatMap((message) => (message.kind === 'drawn' ? [message.slot] : []));
  }
}

let frames: (() => void)[];

beforeEach(() => {
  frames = [];
  vi.stubGlobal('Worker', FakeWorker);
  vi.stubGlobal('location', { search: '', pathname: '/', hash: '' });
  vi.stubGlobal('document', { documentElement: { style: {} }, styleSheets: [] });
  const deaf = { addEventListener: () => undefined, removeEventListener: () => undefined };
  vi.stubGlobal('matchMedia', () => ({ matches: false, ...deaf }));
  vi.stubGlobal('addEventListener', () => undefined);
  vi.stubGlobal('requestAnimationFrame', (frame: () => void) => frames.push(frame));
});

test('a plan that is not in force any more still tells what its records are', () => {
  const app = new App(new Worker(''));
  const planOf = (number: number, method: string): object => ({
    number,
    entries: [{ point: 'MLP1', compressor: { kind: 'tile', method } }],
  });
  const run = (id: string, plan: object | null): object => ({
    ...{ id, plan, points: [], prompt_sets: [], mesh: { tensor: 1, pipeline: 1, data: 1 } },
  });
  const methodOf = (plan: number): string | undefined =>
    compressorFor(app, { query: kTestQuery, plan, entry: 0 })?.method;
  FakeWorker.last.tell('run', run('5f0c', planOf(1, 'sum')));
  FakeWorker.last.tell('plan', { plan: planOf(2, 'std'), step: 9 });
  expect([1, 2, 3].map(methodOf)).toEqual(['sum', 'std', undefined]);
  FakeWorker.last.tell('run', run('77', null));
  expect([methodOf(1), app.plan]).toEqual([undefined, null]);
  app.dispose();
});
