/** The content of a toast, and its duration. */
export interface ToastText {
  /** A later toast with the same key replaces the earlier one. */
  readonly key: string;
  readonly text: string;
  readonly tone: 'plain' | 'good' | 'warn' | 'bad';
  readonly seconds?: number;
  readonly action?: { readonly text: string; readonly run: () => void };
}

export interface Toast extends ToastText {
  readonly id: number;
}

type Timers = (seconds: number, action: () => void) => () => void;

const kSeconds = 6;
const kMax = 4;

const kBrowser: Timers = (seconds, action) => {
  const timer = setTimeout(action, seconds * 1000);
  return () => clearTimeout(timer);
};

/**
 * Short messages over the page, the newest last. Each disappears after some seconds, but not while
 * the mouse or the focus is at one of them.
 */
export class Toasts {
  shown = $state.raw<readonly Toast[]>([]);
  private running: readonly { readonly id: number; readonly stop: () => void }[] = [];
  private isHeld = false;
  private lastId = 0;

  constructor(private readonly after: Timers = kBrowser) {}

  say(text: ToastText): void {
    const others = this.shown.filter(({ key }) => key !== text.key);
    const toast = { ...text, id: ++this.lastId };
    this.keep([...others, toast].slice(-kMax));
    if (!this.isHeld) this.begin(toast);
  }

  dismiss(id: number): void {
    this.keep(this.shown.filter((each) => each.id !== id));
  }

  /** While the mouse or the focus is at a toast, no toast disappears. */
  hold(isHeld: boolean): void {
    if (isHeld === this.isHeld) return;
    this.isHeld = isHeld;
    if (isHeld) this.stop(this.running.map(({ id }) => id));
    else for (const toast of this.shown) this.begin(toast);
  }

  private begin({ id, seconds = kSeconds }: Toast): void {
    const stop = this.after(seconds, () => this.dismiss(id));
    this.running = [...this.running, { id, stop }];
  }

  private keep(toasts: readonly Toast[]): void {
    const gone = this.shown.filter(({ id }) => !toasts.some((each) => each.id === id));
    this.stop(gone.map(({ id }) => id));
    this.shown = toasts;
    // The held toast was removed, so no event says that the mouse has left it.
    if (toasts.length === 0) this.isHeld = false;
  }

  private stop(ids: readonly number[]): void {
    for (const { stop } of this.running.filter(({ id }) => ids.includes(id))) stop();
    this.running = this.running.filter(({ id }) => !ids.includes(id));
  }
}
