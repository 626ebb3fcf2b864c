import type { Component } from 'svelte';
import type { App } from '../state/app.svelte';
import type { Tab } from '../state/tabs';

type TabView = Component<{ app: App }>;
type LaterTab = Exclude<Tab, 'overview' | 'tensors'>;

// What is not seen at first comes as chunks of its own.
const kLoaders: Record<LaterTab, () => Promise<{ default: TabView }>> = {
  text: () => import('./text_tab.svelte'),
  compare: () => import('./compare_tab.svelte'),
  plan: () => import('./plan_tab.svelte'),
  interventions: () => import('./interventions_tab.svelte'),
};

const loads = new Map<LaterTab, Promise<{ default: TabView }>>();

export function loadTab(tab: LaterTab): Promise<{ default: TabView }> {
  const known = loads.get(tab);
  if (known !== undefined) return known;
  const load = kLoaders[tab]();
  loads.set(tab, load);
  // A hub that was away may be back at the next try.
  load.catch(() => loads.delete(tab));
  return load;
}

/** Fetches the chunks before they are asked for, once the first view is there. */
export function loadAllTabs(): void {
  for (const tab of Object.keys(kLoaders) as LaterTab[]) void loadTab(tab).catch(() => undefined);
}

/** Resolves when every chunk that was asked for is there. */
export async function tabsLoaded(): Promise<void> {
  await Promise.allSettled(loads.values());
}
