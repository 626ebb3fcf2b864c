import type { View, ViewQuery } from '../store/frames';

// The records of one forward pass arrive in a burst.
const kDelayMs = 8;

/**
 * Builds and sends the views of one slot of the page. At most one view is sent before it is drawn, so
 * that a slow or hidden page does not get a queue of views.
 */
export class ViewSender {
  private query: ViewQuery | null = null;
  private dirty = false;
  private drawing = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private sentAt = 0;

  /**
   * `build` returns undefined while the view cannot be built yet. `delayMs` is the shortest time
   * between two views.
   */
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
    // A change during the drawing may have waited long enough.
    if (Date.now() - this.sentAt >= this.delayMs) this.flush();
    else this.changed();
  }

  /** The data of the view has changed: builds the view soon. */
  changed(): void {
    this.dirty = true;
    if (this.drawing || this.timer !== undefined || this.query === null) return;
    this.timer = setTimeout(() => this.flush(), this.delayMs);
  }

  /** Sends a pending view at once. */
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
