import type { Component } from 'svelte';
import type { Chunk } from './chunks';

/** A component, in the first load or in a chunk of its own. */
export type Panel<P extends object> =
  { readonly now: Component<P> } | { readonly later: Chunk<{ readonly default: Component<P> }> };
