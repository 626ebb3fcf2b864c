export interface LogLine {
  readonly level: string;
  readonly message: string;
}

/** The log lines of the trainer, the hub and the page, the newest last. */
export class RunLog {
  lines = $state.raw<readonly LogLine[]>([]);

  note(line: LogLine): void {
    this.lines = [...this.lines.slice(-99), line];
  }

  fail(reason: unknown): void {
    this.note({ level: 'error', message: `the page failed: ${String(reason)}` });
  }

  /** Adds a warning, unless the log already has it. */
  warn(message: string): void {
    const known = this.lines.some((line) => line.message === message);
    if (!known) this.note({ level: 'warning', message });
  }
}
