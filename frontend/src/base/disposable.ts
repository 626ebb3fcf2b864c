/** An action that can be undone, for example an added listener. */
export interface Disposable {
  dispose(): void;
}

export function toDisposable(dispose: () => void): Disposable {
  return { dispose };
}

/** Owns disposables; `dispose` undoes them in reverse order. */
export class Trash implements Disposable {
  private readonly items: Disposable[] = [];

  use<T extends Disposable>(item: T): T {
    this.items.push(item);
    return item;
  }

  defer(undo: () => void): void {
    this.items.push({ dispose: undo });
  }

  dispose(): void {
    while (this.items.length > 0) this.items.pop()?.dispose();
  }
}
