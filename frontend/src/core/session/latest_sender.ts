/**
 * Sends a value that moves, as a slider's: one at a time is on its way, those in between are left
 * out, and the last one is always sent.
 */
export class LatestSender<T> {
  private wanted: { readonly value: T } | null = null;
  private running: Promise<void> | null = null;

  constructor(
    private readonly send: (value: T) => Promise<void>,
    private readonly pauseMs: number,
  ) {}

  /** Resolves when this value, or a later one, has been sent. */
  push(value: T): Promise<void> {
    this.wanted = { value };
    this.running ??= this.run().finally(() => (this.running = null));
    return this.running;
  }

  private async run(): Promise<void> {
    while (this.wanted !== null) {
      const { value } = this.wanted;
      this.wanted = null;
      await this.send(value);
      await new Promise((resolve) => setTimeout(resolve, this.pauseMs));
    }
  }
}
