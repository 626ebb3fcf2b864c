/** A tab of the page: what the address and the bar know of it. */
export interface TabFacts {
  readonly tab: string;
  readonly name: string;
  readonly text: string;
}

const kTabs: TabFacts[] = [];

/** Tabs stand in the order of their registration, which is that of their keys from 1 on. */
export function registerTabs(tabs: readonly TabFacts[]): void {
  kTabs.push(...tabs);
}

export function tabFacts(): readonly TabFacts[] {
  return kTabs;
}
