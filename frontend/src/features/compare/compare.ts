import { dtypeName } from '../../protocol/record';
import { viewOf } from '../../core/registry/registry';
import { compressorName } from '../../core/store/compressors';
import type { FramePair } from '../../core/store/frame_pair';
import type { ViewFrame } from '../../core/store/frames';

export type Compared =
  { readonly pair: FramePair } | { readonly pair: null; readonly reason: string };

/** A − B of two frames, or the reason why they cannot be compared. */
export function compareFrames(a: ViewFrame, b: ViewFrame): Compared {
  const reason = obstacle(a, b);
  if (reason !== undefined) return { pair: null, reason };
  const { compare, files } = viewOf(a);
  if (compare === undefined) {
    const reason =
      files === undefined
        ? 'These records have no numbers, so they have no difference.'
        : 'These records cannot be compared. Go to Tensors and move through the steps.';
    return { pair: null, reason };
  }
  const layers = union(a.layers, b.layers);
  return {
    pair: compare.pairOf({ kind: a.kind, a, b, layers, sameTokens: sameTokens(a, b) }),
  };
}

function obstacle(a: ViewFrame, b: ViewFrame): string | undefined {
  const [first, second] = [formName(a), formName(b)];
  if (a.kind !== b.kind || a.compressor !== b.compressor) {
    return `A: ${first}. B: ${second}. Choose steps with the same compressor.`;
  }
  if (a.features !== b.features) {
    return `The point has ${a.features} columns in A and ${b.features} in B.`;
  }
  if (a.layer !== b.layer) {
    return `The nearest layer in A is ${a.layer}, in B ${b.layer}: choose a layer that both have.`;
  }
  const { compare } = viewOf(a);
  if (compare === undefined) return undefined;
  const [shapeA, shapeB] = [compare.shapeOf(a), compare.shapeOf(b)];
  if (shapeA !== shapeB) return `A is ${shapeA}, B ${shapeB}: only equal shapes have a difference.`;
  return compare.obstacle?.(a, b);
}

function formName(frame: ViewFrame): string {
  return `${compressorName(frame.compressor)} as ${dtypeName(frame.dtype)}`;
}

function sameTokens(a: ViewFrame, b: ViewFrame): boolean | null {
  const [first, second] = [a.tokens, b.tokens];
  if (first === null || second === null) return null;
  return first.length === second.length && first.every((id, i) => id === second[i]);
}

function union(a: readonly number[], b: readonly number[]): readonly number[] {
  return [...new Set([...a, ...b])].sort((first, second) => first - second);
}
