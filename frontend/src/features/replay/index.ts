import type { Feature } from '../../core/registry/feature';
import ReplayControls from './replay_controls.svelte';

/** The speed and the step of a replay. */
export const kReplay: Feature = { controls: [ReplayControls] };
