import type { AuditLine } from '../../protocol/messages';
import type { HistoryClient } from './history_client';

// The hub writes its history to the recording within one second, or later if its machine is busy.
const kDelaySeconds = 1.5;
const kLateSeconds = 3.5; // after the first reading
const kPageLines = 2000;

export interface TrailListener {
  onLines(lines: readonly AuditLine[]): void;
  /** All lines that the hub has now were passed to `onLines`, or the hub does not answer. */
  onRead(): void;
  onProblem(message: string): void;
  after(seconds: number, action: () => void): void;
}

/** Reads the hub's audit trail: the whole trail when a connection begins, then the new lines. */
export class AuditTrail {
  private last = 0;
  private generation = 0;
  private waits = false;
  private reading: Promise<void> = Promise.resolve();

  constructor(
    private readonly client: HistoryClient,
    private readonly listener: TrailListener,
  ) {}

  /** Reads from the first line, because a hub that was started again may count from 1. */
  begin(): void {
    this.last = 0;
    this.reading = this.read();
    this.grew();
  }

  /** An event has happened for which the trail will get a line. */
  grew(): void {
    if (this.waits) return;
    this.waits = true;
    this.listener.after(kDelaySeconds, () => {
      this.waits = false;
      this.reading = this.read();
      const { generation } = this;
      this.listener.after(kLateSeconds, () => {
        if (this.generation === generation) this.reading = this.read();
      });
    });
  }

  /** Resolves when all requested lines have arrived. */
  settled(): Promise<void> {
    return this.reading;
  }

  private async read(): Promise<void> {
    const generation = ++this.generation;
    try {
      await this.readPages(generation);
    } catch (error) {
      this.listener.onProblem(`events: ${String(error)}`);
    }
    if (generation === this.generation) this.listener.onRead();
  }

  private async readPages(generation: number): Promise<void> {
    for (;;) {
      const lines = await this.client.events(this.last, kPageLines);
      if (generation !== this.generation || lines === undefined || lines.length === 0) return;
      this.last = lines[lines.length - 1].id;
      this.listener.onLines(lines);
      if (lines.length < kPageLines) return;
    }
  }
}
