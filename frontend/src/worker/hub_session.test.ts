import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Hello, Notification } from '../protocol/messages';
import type { PipeListener } from '../protocol/pipe';
import { decodeRecords } from '../protocol/record_reader';
import { HubSession } from './hub_session';
import type { Connection } from './link_messages';

interface Timer {
  readonly seconds: number;
  readonly action: () => void;
}

/** A hub that the test plays by hand, with timers that it fires by hand. */
class Stage {
  readonly pipes: { readonly listener: PipeListener; readonly sent: string[] }[] = [];
  readonly timers: Timer[] = [];
  readonly connections: Connection[] = [];
  readonly hellos: Hello[] = [];
  readonly notifications: Notification[] = [];
  readonly problems: string[] = [];
  status = 0;
  time = 1000;
  readonly order: string[] = [];
  readonly session = new HubSession(
    {
      connect: (listener) => {
        const pipe = { listener, sent: [] as string[] };
        this.pipes.push(pipe);
        const send = (text: string): void => {
          pipe.sent.push(text);
          if (text.includes('ack')) this.order.push(text);
        };
        return { send, close: () => listener.onClosed() };
      },
      probe: () => Promise.resolve(this.status),
      after: (seconds, action) => this.timers.push({ seconds, action }),
      now: () => this.time,
      random: () => 0.5,
    },
    {
      onConnection: (connection) => this.connections.push(connection),
      onHello: (hello) => this.hellos.push(hello),
      onNotification: (notification) => this.notifications.push(notification),
      onRecords: (records) => this.order.push(`${records.length} stored`),
      onProblem: (problem) => this.problems.push(problem),
    },
  );

  get pipe(): { readonly listener: PipeListener; readonly sent: string[] } {
    return this.pipes[this.pipes.length - 1];
  }

  async greet(): Promise<void> {
    this.pipe.listener.onOpen();
    const state = { phase: 'training', step: 1 };
    const result = { version: 1, session: 'v1', run: null, state, control: { holder: null } };
    this.pipe.listener.onText(JSON.stringify({ id: 1, result }));
    await settle();
  }

  async fire(): Promise<number> {
    const timer = this.timers.shift();
    timer?.action();
    await settle();
    return timer?.seconds ?? 0;
  }
}

async function settle(): Promise<void> {
  for (let i = 0; i < 5; i++) await Promise.resolve();
}

describe('HubSession', () => {
  test('says hello first and then reports the connection', async () => {
    const stage = new Stage();
    stage.session.start();
    await stage.greet();
    expect(JSON.parse(stage.pipe.sent[0])).toMatchObject({
      id: 1,
      method: 'hello',
      params: { versions: [1], role: 'viewer' },
    });
    expect(stage.connections.map(({ kind }) => kind)).toEqual(['connecting', 'open']);
    expect(stage.hellos[0].session).toBe('v1');
  });

  test('reconnects for ever with growing waits, and starts over once connected', async () => {
    const stage = new Stage();
    const waits: number[] = [];
    for (let i = 0; i < 5; i++) {
      stage.session.start();
      await stage.greet();
      await stage.fire();
      waits.push(await stage.fire());
      expect(stage.connections.at(-1)).toMatchObject({ kind: 'reconnecting' });
      stage.timers.splice(0);
    }
    expect(waits).toEqual([8, 16, 32, 64, 64]);
  });

  describe('credit', () => {
    const ack = (messages: number): string =>
      JSON.stringify({ event: 'ack', params: { messages } });
    const golden = readFileSync(
      join(import.meta.dirname, '..', '..', '..', 'tests', 'golden', 'record_v1.bin'),
    );
    const bytes = Uint8Array.from(golden).buffer;
    const records = decodeRecords(bytes).length;

    test('the hello names a window, and what was stored is acknowledged after that', async () => {
      const stage = new Stage();
      stage.session.start();
      await stage.greet();
      expect(JSON.parse(stage.pipe.sent[0])).toMatchObject({ params: { window: 4 } });
      stage.pipe.listener.onBinary(bytes);
      expect(stage.order).toEqual([`${records} stored`, ack(1)]);
    });

    test('of a burst the first is acknowledged at once, the others together', async () => {
      const stage = new Stage();
      stage.session.start();
      await stage.greet();
      stage.timers.length = 0;
      for (let i = 0; i < 3; i++) stage.pipe.listener.onBinary(bytes);
      stage.pipe.listener.onBinary(new ArrayBuffer(10));
      const acks = (): string[] => stage.order.filter((text) => text.includes('ack'));
      expect(acks()).toEqual([ack(1)]);
      expect(stage.timers.map(({ seconds }) => seconds)).toEqual([0.025]);
      await stage.fire();
      expect(acks()).toEqual([ack(1), ack(4)]);
      stage.time += 30;
      stage.pipe.listener.onBinary(bytes);
      expect(acks().at(-1)).toBe(ack(5));
    });

    test('a new connection counts anew', async () => {
      const stage = new Stage();
      stage.session.start();
      await stage.greet();
      stage.pipe.listener.onBinary(bytes);
      stage.session.start();
      await stage.greet();
      stage.time += 30;
      stage.pipe.listener.onBinary(bytes);
      expect(stage.pipe.sent.at(-1)).toBe(ack(1));
    });
  });

  test('a message that cannot be read is counted and left out', async () => {
    const stage = new Stage();
    stage.session.start();
    await stage.greet();
    stage.pipe.listener.onText('{"event": "step", "params": {"step": "x"}}');
    stage.pipe.listener.onText('{"event": "later", "params": {}}');
    stage.pipe.listener.onBinary(new ArrayBuffer(10));
    expect(stage.problems).toHaveLength(2);
    expect(stage.connections.at(-1)?.kind).toBe('open');
  });
});
