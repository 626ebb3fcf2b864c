import { type Disposable, toDisposable } from './disposable';

/** A typed event with any number of listeners. */
export class Emitter<T> {
  private readonly listeners = new Set<(value: T) => void>();

  addListener(listener: (value: T) => void): Disposable {
    this.listeners.add(listener);
    return toDisposable(() => this.listeners.delete(listener));
  }

  emit(value: T): void {
    for (const listener of [...this.listeners]) listener(value);
  }
}
