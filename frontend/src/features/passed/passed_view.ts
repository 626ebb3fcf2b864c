import { baseOf, type Scene } from '../../core/store/scene';
import type { PassedFrame } from './frame';

/** The layers that the forward pass reached at a step. */
export function passedView(scene: Scene): PassedFrame {
  const passed = [...scene.group.layers.keys()].sort((a, b) => a - b);
  return { ...baseOf(scene), kind: 'passed', passed };
}
