/**
 * The waiting times between attempts to connect. They double from `min` to `max` seconds, with
 * jitter. There is no limit on the number of attempts.
 */
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
