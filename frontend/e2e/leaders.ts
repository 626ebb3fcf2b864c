import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { test as base } from '@playwright/test';
import { kDist, kPython } from './support.ts';
import type { Json } from './remote.ts';

// A test with a real hub and what no small run does: two pipeline stages, each with a leader, and records that get lost.
// The leaders say what tests/e2e/leader_sessions.py lists: HiddenStates and MLPActivation of layers 1-2 and 3-4.

const kPlayer = fileURLToPath(new URL('recorded/leaders.py', import.meta.url));

type Stage = 0 | 1;

async function lineOf(lines: AsyncIterator<string>): Promise<string> {
  const next = await lines.next();
  if (next.done === true) throw new Error('the player has ended');
  return next.value;
}

/** The leaders of a run with two pipeline stages, and their hub. */
export class Leaders {
  private constructor(
    readonly url: string,
    private readonly player: ChildProcess,
    private readonly lines: AsyncIterator<string>,
  ) {}

  static async start(folder: string): Promise<Leaders> {
    const flags = ['--auth', 'none', '--page-dir', kDist];
    const player = spawn(kPython, [kPlayer, folder, ...flags], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const lines = createInterface({ input: player.stdout })[Symbol.asyncIterator]();
    return new Leaders(await lineOf(lines), player, lines);
  }

  async end(): Promise<void> {
    const ended = once(this.player, 'exit');
    this.player.stdin?.end();
    await ended;
  }

  /** The address of a view. */
  at(query: string): string {
    return `${this.url}?${query}`;
  }

  async join(stage: Stage): Promise<void> {
    await this.tell('lead', stage);
  }

  async leave(stage: Stage): Promise<void> {
    await this.tell('leave', stage);
  }

  /** A step, whose records come from these stages only. */
  async step(step: number, ...stages: readonly Stage[]): Promise<void> {
    for (const stage of stages) await this.tell('records', stage, step);
    await this.notify('step', { step, loss: 1 / step });
  }

  /** What rank 0 says. */
  async notify(event: string, params: Json): Promise<void> {
    await this.tell('notify', 0, event, params);
  }

  /** Waits for the next request that reaches rank 0. */
  async nextRequest(): Promise<{ readonly id: number; readonly method: string }> {
    return (await this.tell('next_request')) as { readonly id: number; readonly method: string };
  }

  async answer(answer: Json): Promise<void> {
    await this.tell('answer', answer);
  }

  private async tell(...command: readonly unknown[]): Promise<unknown> {
    this.player.stdin?.write(`${JSON.stringify(command)}\n`);
    return JSON.parse(await lineOf(this.lines));
  }
}

export const test = base.extend<{ readonly leaders: Leaders }>({
  leaders: async ({}, use) => {
    const folder = mkdtempSync(join(tmpdir(), 'tt-leaders-'));
    const leaders = await Leaders.start(folder);
    try {
      for (const stage of [0, 1] as const) await leaders.join(stage);
      await use(leaders);
    } finally {
      await leaders.end();
      rmSync(folder, { recursive: true });
    }
  },
});
