/** Loads code that the first view does not need, as a separate chunk. It is loaded only once. */
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
    // The next call tries again, because the hub may be available then.
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

// A view draws its first picture in this time after its chunks are there.
const kDrawMs = 100;
let isWaiting = false;

/**
 * Loads all chunks in advance, once the chunks that were asked for are loaded and have drawn: they would
 * share the network and the CPU with the others. The page calls it for each frame of data, so chunks that
 * failed are tried again.
 */
export async function loadAll(): Promise<void> {
  if (isWaiting) return;
  isWaiting = true;
  do {
    await loaded();
    await new Promise((resolve) => setTimeout(resolve, kDrawMs));
  } while (isLoading());
  isWaiting = false;
  for (const load of kChunks) void load().catch(() => undefined);
}

export function isLoading(): boolean {
  return kLoading.size > 0;
}

/** Resolves when every requested chunk is loaded or has failed. */
export async function loaded(): Promise<void> {
  await Promise.allSettled(kLoading);
}
