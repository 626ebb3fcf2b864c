/** What is not seen at first comes as its own chunk, once for all who ask. */
export type Chunk<T> = () => Promise<T>;

const kChunks: Chunk<unknown>[] = [];
const kLoading = new Set<Promise<unknown>>();

export function chunk<T>(load: Chunk<T>): Chunk<T> {
  let asked: Promise<T> | undefined;
  const ask: Chunk<T> = () => {
    if (asked !== undefined) return asked;
    const answer = load();
    asked = answer;
    kLoading.add(answer);
    const done = (): void => void kLoading.delete(answer);
    // A hub that was away may be back at the next try.
    const failed = (): void => {
      done();
      asked = undefined;
    };
    answer.then(done, failed);
    return answer;
  };
  kChunks.push(ask);
  return ask;
}

/** Fetches the chunks before they are asked for, once the first view is there. */
export function loadAll(): void {
  for (const load of kChunks) void load().catch(() => undefined);
}

export function isLoading(): boolean {
  return kLoading.size > 0;
}

/** Resolves when every chunk that was asked for is there, or could not be had. */
export async function loaded(): Promise<void> {
  await Promise.allSettled(kLoading);
}
