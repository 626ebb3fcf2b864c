import {
  array,
  boolean,
  count,
  countTo,
  either,
  type Infer,
  isRecord,
  mapOf,
  nullable,
  number,
  object,
  oneOf,
  open,
  optional,
  pair,
  parse,
  SchemaError,
  string,
  read,
  unknown,
  withDefault,
} from '../base/schema';
import { type AlarmEvent, alarmEventSchema, type AlarmFacts, alarmsSchema } from './alarms';
import {
  type AppliedFacts,
  appliedSchema,
  type InterventionsFacts,
  interventionsSchema,
  programSchema,
  type SavedFacts,
  savedSchema,
} from './interventions';

// The schemas of the text messages in docs/protocol.md. A member that this version does not know is
// ignored.

/** Keeps unknown members of a compressor, so that a plan that is sent again still has them. */
export const compressorSchema = open(
  object({
    kind: string,
    tiles: optional(count),
    method: optional(string),
    tiles_one_rank: optional(count),
    method_one_rank: optional(string),
    data_dims: optional(count),
    range: optional(pair(number)),
    bins: optional(count),
    vectors: optional(array(string)),
    normalize: optional(boolean),
    cosine: optional(boolean),
    k: optional(count),
    columns: optional(array(count)),
  }),
);
export type CompressorFacts = Infer<typeof compressorSchema>;

export const planEntrySchema = object({
  point: string,
  enabled: optional(boolean),
  direction: optional(oneOf('value', 'gradient')),
  layers: optional(string),
  every: optional(count),
  phases: optional(array(oneOf('train', 'eval'))),
  eval_forwards: optional(oneOf('first', 'all')),
  micro_batches: optional(string),
  prompts: optional(string),
  responses: optional(boolean),
  rows: optional(either(count, pair(count))),
  tokens: optional(pair(count)),
  mean_over: optional(string),
  compressor: optional(compressorSchema),
  dtype: optional(string),
});
export type PlanEntry = Infer<typeof planEntrySchema>;

export const planSchema = object({
  number: withDefault(count, 0),
  entries: array(planEntrySchema),
});
export type Plan = Infer<typeof planSchema>;

// The limits of the fields in a record's header. They bound the data that is built for each layer.
const layer = countTo(0xffff);
const columns = countTo(0xffffffff);

export const pointSchema = object({
  name: string,
  /** The path of the point in the model, as programs write it. */
  path: optional(string),
  flag: count,
  first_layer: withDefault(layer, 0),
  last_layer: withDefault(layer, 0),
  dims: withDefault(array(string), []),
  features: withDefault(columns, 0),
  /**
   * The compressor of an entry that names no compressor, and a noun for one number of the point.
   * Both are absent in older runs.
   */
  compressor: optional(string),
  numbers: optional(string),
  /** How the tensor ranks share the value: "replicate", "shard(2)", or "rank-local" if it is not known. */
  placement: optional(object({ tensor: optional(string) })),
  /** Absent if the point has no gradient. */
  gradient_placement: optional(unknown),
  /** The formula of a derived value; absent if the model itself computes the value. */
  formula: optional(string),
  text: withDefault(string, ''),
  /** Only for the point Updates: the names of the rows and of the columns. */
  parameters: optional(array(string)),
  columns: optional(array(string)),
});
export type PointFacts = Infer<typeof pointSchema>;

/** The names of the points that have their own view. */
export const kAttentionPoint = 'RawAttentionScore';
export const kLogitsPoint = 'Logits';

const promptSetSchema = object({
  name: string,
  interval: withDefault(count, 1),
  prompts: withDefault(array(string), []),
  /** The token ids of each prompt; older runs do not tell them. */
  tokens: optional(array(array(count))),
  /** The set does not run any more; another set may have the same name. */
  removed: optional(boolean),
});

export const runSchema = object({
  id: string,
  name: string,
  start_time: optional(string),
  host: optional(string),
  mesh: object({ tensor: count, pipeline: count, data: count, context: optional(count) }),
  model: object({
    num_layers: layer,
    hidden_size: columns,
    num_attention_heads: columns,
    num_query_groups: optional(columns),
    ffn_hidden_size: optional(columns),
    vocab_size: columns,
    seq_length: columns,
    normalization: optional(string),
    norm_epsilon: optional(number),
    parameters: optional(count),
  }),
  micro_batch_size: optional(count),
  global_batch_size: optional(count),
  /** The factors in the gradients of an attached run. `loss_scale`: of the loss in the first step, if it is known. */
  gradients: optional(
    object({
      data_parallel_size: count,
      gradient_accumulation_steps: count,
      loss_scale: optional(number),
    }),
  ),
  train_iters: optional(count),
  /** `texts`: the text of each token id, if the trainer tells them. */
  tokenizer: optional(object({ kind: string, texts: optional(array(string)) })),
  unigram_entropy: optional(nullable(number)),
  points: array(pointSchema),
  /** The places that programs may name, in the order of the forward pass. Older runs do not tell them. */
  program_places: optional(array(object({ path: string, text: string }))),
  /** The tensors of an attached model that are no points. */
  untraced: optional(
    array(object({ path: string, first_layer: layer, last_layer: layer, reason: string })),
  ),
  prompt_sets: withDefault(array(promptSetSchema), []),
  vectors: withDefault(array(string), []),
  /** The options that were given, in the form in which they were written. */
  configuration: optional(mapOf(unknown)),
  /** The run from whose checkpoint this run resumed; absent in a run that began at step 1. */
  parent: optional(object({ id: string, name: string, step: count, checkpoint: string })),
  /** The shell command that resumes the run; absent if the run saves no checkpoints. */
  resume_command: optional(string),
  recording: optional(string),
  /** The limit of the recording in bytes; 0 means no limit. */
  recording_max_bytes: optional(count),
  plan: optional(nullable(planSchema)),
  /** The programs in force. */
  interventions: optional(nullable(array(programSchema))),
});
export type RunFacts = Infer<typeof runSchema>;

/** How the token ids of a run become text: 'byte', another kind, or the text of each id. */
export type Tokenizer = string | readonly string[];

export function tokenizerOf(run: Pick<RunFacts, 'tokenizer'> | null): Tokenizer {
  return run?.tokenizer?.texts ?? run?.tokenizer?.kind ?? 'byte';
}

/** The prompt sets that a plan may name. */
export function activePrompts(run: Pick<RunFacts, 'prompt_sets'>): RunFacts['prompt_sets'] {
  return run.prompt_sets.filter(({ removed }) => !removed);
}

export const stateSchema = object({
  phase: oneOf(
    'starting',
    'waiting',
    'training',
    'paused',
    'evaluating',
    'finished',
    'stopped',
    'lost',
    'replay',
  ),
  step: withDefault(count, 0),
  // Only in a replay.
  paused: optional(boolean),
  speed: optional(number),
  first_step: optional(count),
  last_step: optional(count),
});
export type RunState = Infer<typeof stateSchema>;

export const controlSchema = object({
  holder: nullable(object({ session: string, name: string })),
});
export type Control = Infer<typeof controlSchema>;

export const stepSchema = object({
  step: count,
  loss: optional(nullable(number)),
  lr: optional(nullable(number)),
  grad_norm: optional(nullable(number)),
  tokens_per_second: optional(nullable(number)),
  step_ms: optional(nullable(number)),
  tracer_ms: optional(nullable(number)),
  consumed_tokens: optional(nullable(number)),
  valid_loss: optional(nullable(number)),
});
export type StepFacts = Infer<typeof stepSchema>;

export const stepsSchema = array(stepSchema);

/** The answer to `/history`: the recorded steps, and the oldest step that still has records. */
export const historySchema = object({
  first_step: optional(count),
  last_step: optional(count),
  first_frame_step: optional(count),
});

/** One line of the hub's audit trail, `/history/events`. */
export const auditSchema = object({
  id: count,
  run: withDefault(string, ''),
  time_ns: number,
  step: count,
  kind: string,
  who: withDefault(string, ''),
  detail: unknown,
});
export type AuditLine = Infer<typeof auditSchema>;

export const auditTrailSchema = array(auditSchema);

const otherRunSchema = object({
  id: string,
  name: string,
  facts: runSchema,
  first_step: withDefault(count, 1),
  last_step: count,
  // Only the runs in the folder of the run directory have the following members.
  state: optional(string),
  loss: optional(number),
  recording: optional(string),
  /** The address of the run's page while its hub is active. */
  url: optional(string),
});
/** A run that the hub offers in addition to its own run. */
export type OtherRunFacts = Infer<typeof otherRunSchema>;

const anyRunsSchema = object({ runs: array(unknown) });

/** The answer to `/history/runs`, without the runs that cannot be read. */
export function parseRuns(answer: unknown): readonly OtherRunFacts[] {
  return anyRunsSchema(answer, 'runs').runs.flatMap((run) => read(otherRunSchema, run) ?? []);
}

/** The size of the run's recording and its limit, in bytes; `max_bytes` 0 means no limit. */
export const recordingSchema = object({ bytes: count, max_bytes: count });
export type RecordingFacts = Infer<typeof recordingSchema>;

export const keptSchema = object({ max_bytes: count });

const partSchema = object({ stage: count, rank: optional(count), connected: boolean });
/** A pipeline stage, and the leader that sends its records. */
export type Part = Infer<typeof partSchema>;

export const partsSchema = object({ parts: array(partSchema) });

export const helloSchema = object({
  version: count,
  session: string,
  hub: withDefault(string, ''),
  run: nullable(runSchema),
  state: stateSchema,
  control: controlSchema,
  /** False if the token only permits viewing. */
  may_control: optional(boolean),
  /** Only for a run with several stages. */
  parts: optional(array(partSchema)),
});
export type Hello = Infer<typeof helloSchema>;

export const boundarySchema = object({ step: count, ranks: count });

export const planAnswerSchema = object({ step: count, ranks: count, plan: planSchema });

/**
 * The answer to `plan.check`, averaged over the training steps: the bytes and records that the
 * trainer sends to the hub, and the floating-point operations for values that are computed only for
 * the plan.
 */
export const planCheckSchema = object({
  entries: array(object({ bytes: number, records: number, flops: withDefault(number, 0) })),
  bytes_per_step: number,
  flops_per_step: withDefault(number, 0),
});
export type PlanEstimate = Infer<typeof planCheckSchema>;

export const claimSchema = object({ lease_seconds: number });

export const errorSchema = object({
  code: string,
  message: string,
  where: optional(nullable(string)),
  remedy: optional(nullable(string)),
});
export type HubError = Infer<typeof errorSchema>;

export const droppedSchema = object({
  records: count,
  where: withDefault(string, 'viewer'),
  /** Records by plan entry. */
  entries: optional(mapOf(count)),
  /**
   * For a viewer, the number of lost `saved`, `applied` and `response`; for a trainer's queue, of lost texts; for
   * a recording, of lost steps and lines of the audit trail.
   */
  events: optional(count),
});
export type DroppedFacts = Infer<typeof droppedSchema>;
export const promptsEventSchema = object({ prompt_sets: array(promptSetSchema), step: count });
export const planEventSchema = object({ plan: planSchema, step: count });
/** A checkpoint that is complete on the disk; it has the state after `step`. */
export const checkpointSchema = object({
  step: count,
  path: string,
  bytes: count,
  seconds: number,
});
/** The model's response to a monitored prompt: `prompt` counts from 0, `prompt_set` from 1. */
export const responseSchema = object({
  step: count,
  prompt_set: count,
  prompt: count,
  text: string,
  token_ids: array(count),
  finish_reason: string,
});
export type ResponseFacts = Infer<typeof responseSchema>;
const projectionSeriesSchema = object({
  point: string,
  vector: string,
  prompts: string,
  mean_over: string,
  scale: string,
  layers: array(count),
  /** By layer; null if the run did not take it. */
  baseline: array(nullable(number)),
  /** The standard deviation of the baseline over the prompts; not in older recordings. */
  deviation: optional(array(nullable(number))),
});
/** Means over all prompts at the end of a step; the page reads only their baselines. */
export type ProjectionSeries = Infer<typeof projectionSeriesSchema>;
export const projectionsSchema = object({ series: array(projectionSeriesSchema) });
export const logSchema = object({ level: string, message: string });

export type Notification =
  | { readonly event: 'run'; readonly params: RunFacts }
  | { readonly event: 'state'; readonly params: RunState }
  | { readonly event: 'control'; readonly params: Control }
  | { readonly event: 'parts'; readonly params: Infer<typeof partsSchema> }
  | { readonly event: 'step'; readonly params: StepFacts }
  | { readonly event: 'dropped'; readonly params: DroppedFacts }
  | { readonly event: 'plan'; readonly params: Infer<typeof planEventSchema> }
  | { readonly event: 'prompts'; readonly params: Infer<typeof promptsEventSchema> }
  | { readonly event: 'interventions'; readonly params: InterventionsFacts }
  | { readonly event: 'applied'; readonly params: AppliedFacts }
  | { readonly event: 'saved'; readonly params: SavedFacts }
  | { readonly event: 'alarm'; readonly params: AlarmEvent }
  | { readonly event: 'alarms'; readonly params: { readonly alarms: readonly AlarmFacts[] } }
  | { readonly event: 'recording'; readonly params: RecordingFacts }
  | { readonly event: 'checkpoint'; readonly params: Infer<typeof checkpointSchema> }
  | { readonly event: 'response'; readonly params: ResponseFacts }
  | { readonly event: 'projections'; readonly params: Infer<typeof projectionsSchema> }
  | { readonly event: 'log'; readonly params: Infer<typeof logSchema> };

export type Answer =
  | { readonly id: number; readonly ok: true; readonly result: unknown }
  | { readonly id: number; readonly ok: false; readonly error: HubError };

export type TextMessage =
  | { readonly kind: 'answer'; readonly answer: Answer }
  | { readonly kind: 'notification'; readonly notification: Notification }
  | { readonly kind: 'unknown'; readonly event: string };

/** Parses one text message of the hub; throws SchemaError (or SyntaxError) on anything else. */
export function parseTextMessage(text: string): TextMessage {
  const message: unknown = JSON.parse(text);
  if (!isRecord(message)) throw new SchemaError('', 'an object');
  if ('event' in message) return parseNotification(parse(string, message.event), message.params);
  const id = count(message.id, 'id');
  if ('error' in message) {
    const error = errorSchema(message.error, 'error');
    return { kind: 'answer', answer: { id, ok: false, error } };
  }
  if (!('result' in message)) throw new SchemaError('', 'an answer or a notification');
  return { kind: 'answer', answer: { id, ok: true, result: unknown(message.result, 'result') } };
}

/** The schemas of the params, by event. */
const kParams: {
  readonly [Event in Notification['event']]: (
    value: unknown,
    path: string,
  ) => Extract<Notification, { readonly event: Event }>['params'];
} = {
  run: runSchema,
  state: stateSchema,
  control: controlSchema,
  parts: partsSchema,
  step: stepSchema,
  dropped: droppedSchema,
  plan: planEventSchema,
  prompts: promptsEventSchema,
  interventions: interventionsSchema,
  applied: appliedSchema,
  saved: savedSchema,
  alarm: alarmEventSchema,
  alarms: alarmsSchema,
  recording: recordingSchema,
  checkpoint: checkpointSchema,
  response: responseSchema,
  projections: projectionsSchema,
  log: logSchema,
};

function parseNotification(event: string, params: unknown): TextMessage {
  if (!isNotified(event)) return { kind: 'unknown', event };
  const notification = { event, params: kParams[event](params, 'params') } as Notification;
  return { kind: 'notification', notification };
}

function isNotified(event: string): event is Notification['event'] {
  return Object.hasOwn(kParams, event);
}
