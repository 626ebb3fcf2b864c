/** The pause after an update, as a multiple of the update's duration. */
const kPauses = 4;

/**
 * Says when the values that are derived from the scalars are computed again. This takes longer for a
 * run with more steps. So a pause follows each update, in which the page can react to its user.
 */
export class SeriesClock {
  /** Increases with each update. */
  version = $state(0);
  private isDue = false;
  private isResting = false;

  /** `drawn` resolves when all that depends on the version is drawn. `now`: the time in milliseconds. */
  constructor(
    private readonly drawn: () => Promise<void>,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** To be called after each change of the scalars. */
  changed(): void {
    this.isDue = true;
    if (!this.isResting) void this.update();
  }

  /** Updates at once if the scalars have changed since the last update. */
  flush(): void {
    if (!this.isDue) return;
    this.isDue = false;
    this.version += 1;
  }

  private async update(): Promise<void> {
    this.isResting = true;
    while (this.isDue) {
      const begin = this.now();
      this.flush();
      await this.drawn();
      const pause = kPauses * (this.now() - begin);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    this.isResting = false;
  }
}
