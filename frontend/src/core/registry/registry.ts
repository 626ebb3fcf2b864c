import { registerCompressors } from '../store/compressors';
import type { ViewFrame } from '../store/frames';
import { registerTabs } from '../session/tabs';
import { registerUrlMembers } from '../session/url_state';
import type { Compressor, Feature, FrameView, Tab } from './feature';

const kFeatures: Feature[] = [];

/** Registers features before the page starts. Tabs, tools and choices appear in this order. */
export function registerFeatures(features: readonly Feature[]): void {
  kFeatures.push(...features);
  for (const { url = {}, compressors = [], tabs = [] } of features) {
    registerUrlMembers(url);
    registerCompressors(compressors);
    registerTabs(tabs);
  }
}

export function features(): readonly Feature[] {
  return kFeatures;
}

/** All contributions of the features under one name. */
export function contributions<K extends keyof Feature>(
  name: K,
): readonly (Feature[K] extends readonly (infer T)[] | undefined ? T : never)[] {
  return kFeatures.flatMap((feature) => (feature[name] ?? []) as never[]);
}

/** The view of a frame. Every frame comes from a builder whose feature has a view. */
export function viewOf({ kind }: Pick<ViewFrame, 'kind'>): FrameView {
  const view = contributions('views').find((each) => each.kind === kind);
  if (view === undefined) throw new Error(`no feature shows ${kind}`);
  return view;
}

export function tabOf(name: string): Tab | undefined {
  return contributions('tabs').find(({ tab }) => tab === name);
}

/** The compressor of a plan's entry, by its name. */
export function compressorNamed(name: string): Compressor | undefined {
  return contributions('compressors').find((each) => each.name === name);
}

/** The compressor of a record, by its number on the wire. */
export function compressorOfCode(code: number): Compressor | undefined {
  return contributions('compressors').find((each) => each.code === code);
}
