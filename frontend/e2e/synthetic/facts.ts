import { kLayers, kPoints, kPromptSet, kRunId, kSequence, kVectors } from './data.ts';

const kPaths: Readonly<Record<string, string>> = {
  HiddenStates: 'layers[n].output',
  QKV: 'layers[n].attention.qkv',
  MLP1: 'layers[n].mlp.fc1',
  MLP2: 'layers[n].mlp.output',
  InputTokens: 'tokens',
  RawAttentionScore: 'layers[n].attention.scores',
  FinalNorm: 'final_norm.output',
  Logits: 'logits',
};

const kNumbers: Readonly<Record<string, string>> = {
  RawAttentionScore: 'attention probability',
  Logits: 'logit',
};

/** The facts of the synthetic run. */
export function factsOf(plan: unknown): Readonly<Record<string, unknown>> {
  const points = kPoints.map(({ name, flag, features, text, layered, gradient, dims }) => ({
    ...{ name, flag, features, text, dims },
    path: kPaths[name],
    numbers: kNumbers[name] ?? 'activation',
    first_layer: layered ? 1 : 0,
    last_layer: layered ? kLayers : 0,
    placement: { tensor: 'replicate', pipeline: 'stage', data: 'shard(0)' },
    ...(gradient ? { gradient_placement: { tensor: 'replicate' } } : {}),
  }));
  return {
    id: kRunId,
    name: 'shakespeare-demo',
    start_time: '2026-11-21T03:00:00Z',
    host: 'login-1',
    mesh: { tensor: 2, pipeline: 1, data: 1 },
    model: {
      num_layers: kLayers,
      hidden_size: 256,
      num_attention_heads: 4,
      num_query_groups: 4,
      ffn_hidden_size: 1024,
      vocab_size: 256,
      seq_length: kSequence,
      parameters: 3290112,
    },
    micro_batch_size: 8,
    global_batch_size: 8,
    train_iters: 300,
    tokenizer: { kind: 'byte' },
    unigram_entropy: 3.19,
    points,
    prompt_sets: [kPromptSet],
    vectors: kVectors,
    configuration: { config: 'configs/runs/demo.json', lr: '0.0006' },
    recording: 'runs/demo/run.ttrec',
    plan,
  };
}
