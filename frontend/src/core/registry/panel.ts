import type { Component } from 'svelte';
import type { Chunk } from './chunks';

/** A component, in the first load (`now`) or in a separate chunk (`later`). */
export type Panel<P extends object> =
  { readonly now: Component<P> } | { readonly later: Chunk<{ readonly default: Component<P> }> };
