import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Hello, Notification } from '../../protocol/messages';
import type { PipeListener } from '../../protocol/pipe';
import { decodeRecords } from '../../protocol/record_reader';
import { HubSession } from './hub_session';
import type { Connection } from './link_messages';

interface Timer {
  readonly seconds: number;
  readonly action: () => void;
}

/** A hub whose messages and timers the test triggers itself. */
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
    stage.session.start();
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      stage.pipe.listener.onClosed();
      await settle();
      waits.push(await stage.fire());
    }
    expect(waits).toEqual([0.25, 0.5, 1, 2, 2.5, 2.5, 2.5, 2.5]);
    expect(stage.pipes).toHaveLength(9);
    await stage.greet();
    stage.timers.length = 0;
    stage.pipe.listener.onClosed();
    await settle();
    expect(await stage.fire()).toBe(0.25);
  });

  test('a hub that answers but takes no socket has enough viewers', async () => {
    const stage = new Stage();
    stage.status = 426;
    stage.session.start();
    stage.pipe.listener.onClosed();
    await settle();
    const message = expect.stringContaining('the hub cannot take more viewers') as unknown;
    expect(stage.connections.at(-1)).toMatchObject({ kind: 'reconnecting', message });
    await stage.fire();
    stage.pipe.listener.onOpen();
    stage.pipe.listener.onClosed();
    await settle();
    expect(stage.connections.at(-1)).toMatchObject({ kind: 'reconnecting', message: '' });
  });

  test('a missing token ends the trying, for the page to ask for it', async () => {
    const stage = new Stage();
    stage.status = 401;
    stage.session.start();
    stage.pipe.listener.onClosed();
    await settle();
    expect(stage.connections.at(-1)).toMatchObject({ kind: 'refused', reason: 'token' });
    expect(stage.timers).toHaveLength(0);
  });

  test('a hub that speaks no common version is not asked again', async () => {
    const stage = new Stage();
    stage.session.start();
    stage.pipe.listener.onOpen();
    const error = { code: 'unsupported_version', message: 'only 2' };
    stage.pipe.listener.onText(JSON.stringify({ id: 1, error }));
    await settle();
    expect(stage.connections.at(-1)).toMatchObject({ kind: 'refused', message: 'only 2' });
    expect(stage.timers).toHaveLength(0);
  });

  test('a request on its way when the connection ends is answered', async () => {
    const stage = new Stage();
    stage.session.start();
    await stage.greet();
    const answer = stage.session.request('control.pause', {});
    stage.pipe.listener.onClosed();
    expect(await answer).toMatchObject({ ok: false, error: { code: 'disconnected' } });
  });

  test('a request while the connection is still coming about is answered at once', async () => {
    const stage = new Stage();
    stage.session.start();
    expect(await stage.session.request('control.pause', {})).toMatchObject({
      ok: false,
      error: { code: 'disconnected', message: 'the page is not connected to the hub' },
    });
    await stage.greet();
    expect(stage.pipe.sent).toHaveLength(1);
    expect(stage.hellos).toHaveLength(1);
  });

  test('a connection that answers no ping is given up', async () => {
    const stage = new Stage();
    stage.session.start();
    await stage.greet();
    await stage.fire();
    expect(JSON.parse(stage.pipe.sent[1])).toMatchObject({ method: 'ping' });
    await stage.fire();
    expect(stage.connections.at(-1)).toMatchObject({ kind: 'reconnecting' });
  });

  test('a ping waits longer for its answer each time, as behind a large record', async () => {
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
      join(import.meta.dirname, '..', '..', '..', '..', 'tests', 'golden', 'record_v1.bin'),
    );
    const bytes = Uint8Array.from(golden).buffer;
    const records = decodeRecords(bytes).length;

    test('the hello names a window, and what was stored is acknowledged after that', async () => {
      const stage = new Stage();
      stage.session.start();
      await stage.greet();
      expect(JSON.parse(stage.pipe.sent[0])).toMatchObject({ params: { window: 1 } });
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
