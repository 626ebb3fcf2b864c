const kSliceMs = 8;

/** Divides long work of the page: after each slice of time, the browser can draw and answer. */
export class Slices {
  private end: number;

  constructor(
    private readonly now: () => number = () => performance.now(),
    private readonly pause: () => Promise<void> = nextTask,
  ) {
    this.end = now() + kSliceMs;
  }

  get isOver(): boolean {
    return this.now() >= this.end;
  }

  async rest(): Promise<void> {
    await this.pause();
    this.end = this.now() + kSliceMs;
  }
}

/** Resolves in another task. Not a timer, because browsers slow down the timers of a hidden page. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
