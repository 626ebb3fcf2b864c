import { beforeEach, expect, test, vi } from 'vitest';
import { App } from '../core/page/app.svelte';
import type { Command } from '../core/registry/commands';
import type { RunFacts } from '../protocol/messages';
import { commandsOf } from './commands';

class FakeWorker {
  onmessage = null;
}

beforeEach(() => {
  const deaf = { addEventListener: () => undefined, removeEventListener: () => undefined };
  vi.stubGlobal('Worker', FakeWorker);
  vi.stubGlobal('location', { search: '', pathname: '/', hash: '' });
  vi.stubGlobal('document', { documentElement: { style: {} }, styleSheets: [] });
  vi.stubGlobal('matchMedia', () => ({ matches: false, ...deaf }));
  vi.stubGlobal('addEventListener', () => undefined);
  vi.stubGlobal('requestAnimationFrame', () => 0);
});

test('a checkpoint is a command of a run that saves checkpoints, for the holder of control', () => {
  const app = new App(new Worker(''));
  const page = { help: () => undefined, palette: () => undefined };
  const found = (): Command | undefined =>
    commandsOf(app, page).find(({ text }) => text === 'Checkpoint now');
  app.run = { points: [], prompt_sets: [] } as unknown as RunFacts;
  app.runState = { phase: 'training', step: 12 };
  expect(found()).toBeUndefined();
  app.run = { ...app.run, resume_command: 'tensor-tracer train' };
  expect(found()).toMatchObject({ group: 'Run', hindrance: undefined });
  app.control.greeted('v1', { holder: { session: 'v9', name: 'Ada' } }, true);
  expect(found()?.hindrance).toBe('Ada holds control');
  app.runState = { phase: 'finished', step: 12 };
  expect(found()).toBeUndefined();
  app.dispose();
});
