import { beforeEach, expect, test, vi } from 'vitest';
import { kTestQuery } from '../store/test_query';
import type { FromWorker, Slot, ToWorker } from '../worker/link_messages';
import { App } from './app.svelte';

/** The page's end of a worker that does nothing. */
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

test('an alarm needs no animation frame: a hidden page has none', async () => {
  const app = new App();
  FakeWorker.last.view('alarm');
  FakeWorker.last.view('main');
  expect(FakeWorker.last.drawn).toEqual(['alarm']);
  for (const frame of frames.splice(0)) frame();
  await vi.waitFor(() => expect(FakeWorker.last.drawn).toEqual(['alarm', 'main']));
  app.dispose();
});
