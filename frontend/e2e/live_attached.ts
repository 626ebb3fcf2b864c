import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from '@playwright/test';
import { pageOf } from './live_support.ts';
import { kPrograms, kPython } from './support.ts';

// Trainings of PyTorch with the tracer attached, as torchrun starts them.

const kRoot = fileURLToPath(new URL('../..', import.meta.url));

/** Starts a script of this repository on two ranks. What it says on standard error is an artifact of the test. */
export function torchrun(script: string, ...options: readonly string[]): ChildProcess {
  const line = ['-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2', script];
  const env = {
    ...process.env,
    OMP_NUM_THREADS: '1',
    PYTHONPATH: join(kRoot, 'python'),
    TENSOR_TRACER_BUILD: process.env.TENSOR_TRACER_BUILD ?? join(kPrograms, '..'),
  };
  const said = openSync(test.info().outputPath('training.log'), 'a');
  const run = spawn(kPython, [...line, ...options], {
    ...{ cwd: kRoot, env, stdio: ['ignore', 'pipe', said] },
  });
  closeSync(said);
  return run;
}

/** Calls `use` with the page's address of a training whose run has this directory, and ends the training. */
export async function whileTraining(
  training: ChildProcess,
  runDir: string,
  use: (url: string) => Promise<void>,
): Promise<void> {
  training.stdout?.resume();
  const ended = once(training, 'exit');
  try {
    await use(await pageOf(runDir));
  } finally {
    training.kill('SIGTERM');
    await ended;
  }
}

/** What a training prints until its end. */
export async function outputOf(training: ChildProcess): Promise<string> {
  let said = '';
  training.stdout?.on('data', (piece: Buffer) => (said += piece.toString()));
  const [code] = (await once(training, 'close')) as [number | null];
  if (code !== 0) throw new Error(`the training ended with ${code}: ${said}`);
  return said;
}
