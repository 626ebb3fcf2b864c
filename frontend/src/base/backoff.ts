/** Waits before reconnecting: doubling from `min` to `max` seconds with jitter, forever. */
export class Backoff {
  private attempt = 0;

  constructor(
    private readonly random: () => number = Math.random,
    private readonly min = 0.25,
    private readonly max = 2.5,
  ) {}

  /** Seconds to wait before the next attempt. */
  next(): number {
    const base = Math.min(this.max, this.min * 2 ** this.attempt);
    if (this.attempt < 30) this.attempt += 1;
    const jittered = base * (0.75 + 0.5 * this.random());
    return Math.min(this.max, Math.max(this.min, jittered));
  }

  reset(): void {
    this.attempt = 0;
  }
}
