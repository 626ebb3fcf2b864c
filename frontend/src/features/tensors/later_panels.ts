import type { Tab } from '../../core/session/tabs';

type LaterTab = Exclude<Tab, 'overview' | 'tensors'>;

const loading = new Set<Promise<unknown>>();

/** What is not seen at first comes as its own chunk, once for all who ask. */
function chunk<T>(load: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | undefined;
  return () => {
    if (asked !== undefined) return asked;
    const answer = load();
    asked = answer;
    loading.add(answer);
    const done = (): void => void loading.delete(answer);
    // A hub that was away may be back at the next try.
    const failed = (): void => {
      done();
      asked = undefined;
    };
    answer.then(done, failed);
    return answer;
  };
}

const kTabs = {
  text: chunk(() => import('../text/text_tab.svelte')),
  compare: chunk(() => import('../compare/compare_tab.svelte')),
  plan: chunk(() => import('../plan/plan_tab.svelte')),
  interventions: chunk(() => import('../interventions/interventions_tab.svelte')),
} as const satisfies Record<LaterTab, unknown>;

/** A tab that is not in the first load. */
export function loadTab(tab: LaterTab): ReturnType<(typeof kTabs)[LaterTab]> {
  return kTabs[tab]();
}

/** The views of the Tensors tab beyond one layer's maps. */
export const loadViews = chunk(() => import('./later_views.svelte'));

/** Fetches the chunks before they are asked for, once the first view is there. */
export function loadAll(): void {
  for (const load of [loadViews, ...Object.values(kTabs)]) void load().catch(() => undefined);
}

export function isLoading(): boolean {
  return loading.size > 0;
}

/** Resolves when every chunk that was asked for is there, or could not be had. */
export async function loaded(): Promise<void> {
  await Promise.allSettled(loading);
}
