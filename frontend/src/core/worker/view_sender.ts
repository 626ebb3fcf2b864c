import type { View, ViewQuery } from '../store/frames';

// Records of one forward pass come in a burst.
const kDelayMs = 8;

/**
 * Builds and sends the views of one place of the page: at most one that is not drawn yet, so a slow
 * or hidden page never piles up work.
 */
export class ViewSender {
  private query: ViewQuery | null = null;
  private dirty = false;
  private drawing = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private sentAt = 0;

  /** `build`: undefined while the view cannot be built yet. `delayMs`: no two views are closer than that. */
  constructor(
    private readonly build: (query: ViewQuery) => View | undefined,
    private readonly send: (view: View) => void,
    private readonly delayMs = kDelayMs,
  ) {}

  ask(query: ViewQuery | null): void {
    this.query = query;
    this.changed();
  }

  drawn(): void {
    this.drawing = false;
    if (!this.dirty || this.timer !== undefined) return;
    // What came meanwhile has perhaps waited long enough.
    if (Date.now() - this.sentAt >= this.delayMs) this.flush();
    else this.changed();
  }

  /** What the view is built from has changed: builds it soon. */
  changed(): void {
    this.dirty = true;
    if (this.drawing || this.timer !== undefined || this.query === null) return;
    this.timer = setTimeout(() => this.flush(), this.delayMs);
  }

  /** Sends at once what is not sent yet. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (!this.dirty || this.query === null) return;
    this.dirty = false;
    const view = this.build(this.query);
    if (view === undefined) return;
    this.drawing = true;
    this.sentAt = Date.now();
    this.send(view);
  }
}
