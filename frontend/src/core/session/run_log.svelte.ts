export interface LogLine {
  readonly level: string;
  readonly message: string;
}

/** What the trainer, the hub and the page itself have to say, the newest last. */
export class RunLog {
  lines = $state.raw<readonly LogLine[]>([]);

  note(line: LogLine): void {
    this.lines = [...this.lines.slice(-99), line];
  }

  fail(reason: unknown): void {
    this.note({ level: 'error', message: `the page failed: ${String(reason)}` });
  }

  /** An alarm that lasts is told once. */
  warn(message: string): void {
    const known = this.lines.some((line) => line.message === message);
    if (!known) this.note({ level: 'warning', message });
  }
}
