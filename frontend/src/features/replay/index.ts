import type { Feature } from '../../core/registry/feature';
import ReplayBar from './replay_bar.svelte';

/** Speed and place of a recording that is played. */
export const kReplay: Feature = { controls: [ReplayBar] };
