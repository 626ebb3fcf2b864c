import { type Disposable, toDisposable } from './disposable';

/**
 * Owns all animation frames of the page. It calls each drawer at most once per frame, and only
 * after a call of `redraw`. A drawer reads state and never writes it.
 */
export class RafScheduler {
  private readonly drawers = new Set<() => void>();
  private readonly dirty = new Set<() => void>();
  private readonly waiters: (() => void)[] = [];
  private pending = false;

  constructor(
    private readonly request: (callback: () => void) => void = (callback) =>
      requestAnimationFrame(callback),
  ) {}

  addDrawer(drawer: () => void): Disposable {
    this.drawers.add(drawer);
    this.redraw(drawer);
    return toDisposable(() => {
      this.drawers.delete(drawer);
      this.dirty.delete(drawer);
    });
  }

  /** Draws one drawer, or all of them, in the next frame. */
  redraw(drawer?: () => void): void {
    if (drawer === undefined) for (const each of this.drawers) this.dirty.add(each);
    else if (this.drawers.has(drawer)) this.dirty.add(drawer);
    this.ensureFrame();
  }

  /** Resolves after the frame that draws all redraws that were requested before this call. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.waiters.push(resolve);
      this.ensureFrame();
    });
  }

  private ensureFrame(): void {
    if (this.pending) return;
    this.pending = true;
    this.request(() => this.frame());
  }

  private frame(): void {
    this.pending = false;
    const drawers = [...this.dirty];
    this.dirty.clear();
    for (const drawer of drawers) drawer();
    for (const resolve of this.waiters.splice(0)) resolve();
  }
}
