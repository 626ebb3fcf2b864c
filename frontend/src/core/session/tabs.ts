/** A tab of the page, as the address and the tab bar use it. */
export interface TabFacts {
  readonly tab: string;
  readonly name: string;
  readonly text: string;
}

const kTabs: TabFacts[] = [];

/** Registers tabs. Their order is that of the tab bar and of the keys from 1 on. */
export function registerTabs(tabs: readonly TabFacts[]): void {
  kTabs.push(...tabs);
}

export function tabFacts(): readonly TabFacts[] {
  return kTabs;
}
