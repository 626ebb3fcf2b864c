import type { Feature } from '../../core/registry/feature';
import ReplayControls from './replay_controls.svelte';

/** Speed and place of a recording that is played. */
export const kReplay: Feature = { controls: [ReplayControls] };
