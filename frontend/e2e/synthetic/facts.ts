import { kHeads, kHidden, kLayers, kPoints, kRunId, kSequence } from './data.ts';

/** The facts of the synthetic run. */
export function factsOf(plan: unknown): Readonly<Record<string, unknown>> {
  const points = kPoints.map(({ layered, ...point }) => ({
    ...point,
    text: point.name,
    first_layer: layered ? 1 : 0,
    last_layer: layered ? kLayers : 0,
  }));
  return {
    id: kRunId,
    name: 'synthetic',
    mesh: { tensor: 2, pipeline: 1, data: 1 },
    model: {
      num_layers: kLayers,
      hidden_size: kHidden,
      num_attention_heads: kHeads,
      vocab_size: 256,
      seq_length: kSequence,
    },
    train_iters: 300,
    tokenizer: { kind: 'byte' },
    points,
    plan,
  };
}
