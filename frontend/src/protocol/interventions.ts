import {
  array,
  boolean,
  count,
  type Infer,
  mapOf,
  nullable,
  number,
  object,
  optional,
  string,
  unknown,
  withDefault,
} from '../base/schema';

// The schemas of the interventions in docs/protocol.md. A member that this version does not know is
// ignored.

export const parameterSchema = object({
  name: string,
  value: number,
  min: optional(nullable(number)),
  max: optional(nullable(number)),
});
export type Parameter = Infer<typeof parameterSchema>;

const siteSchema = object({
  place: string,
  point: withDefault(string, ''),
  layer: withDefault(count, 0),
  gradient: withDefault(boolean, false),
  /** Only for a write: `everywhere`, `shards` or `gathered`. */
  runs: optional(string),
});
export type Site = Infer<typeof siteSchema>;

const conditionsSchema = withDefault(mapOf(unknown), {});
export type Conditions = Infer<typeof conditionsSchema>;

const kEffects = {
  parameters: withDefault(array(parameterSchema), []),
  writes: withDefault(array(siteSchema), []),
  reads: withDefault(array(siteSchema), []),
  saves: withDefault(array(string), []),
  skips: withDefault(array(count), []),
  when: conditionsSchema,
};

/** A program in force. */
export const programSchema = object({
  name: string,
  text: withDefault(string, ''),
  since: withDefault(count, 0),
  /** The last step in which the program is in force; absent without `ttl`. */
  until: optional(nullable(count)),
  keep: withDefault(boolean, false),
  ...kEffects,
});
export type Program = Infer<typeof programSchema>;

export const interventionsSchema = object({
  step: count,
  programs: array(programSchema),
  reason: withDefault(string, ''),
});
export type InterventionsFacts = Infer<typeof interventionsSchema>;

const appliedProgramSchema = object({
  name: string,
  forwards: withDefault(count, 0),
  positions: withDefault(count, 0),
  /** The positions by place and layer. */
  writes: withDefault(array(object({ place: string, positions: withDefault(count, 0) })), []),
  identity: withDefault(count, 0),
  waiting: withDefault(count, 0),
  failed: withDefault(count, 0),
  ranks: withDefault(count, 0),
  of_ranks: withDefault(count, 0),
});
/** The effect of a program in one step. */
export type AppliedProgram = Infer<typeof appliedProgramSchema>;

export const appliedSchema = object({ step: count, programs: array(appliedProgramSchema) });
export type AppliedFacts = Infer<typeof appliedSchema>;

export const savedSchema = object({
  step: count,
  micro_batch: withDefault(count, 0),
  phase: withDefault(string, 'train'),
  prompt_set: withDefault(count, 0),
  first_row: withDefault(count, 0),
  program: string,
  name: string,
  layer: withDefault(count, 0),
  shape: withDefault(array(count), []),
  values: array(number),
});
export type SavedFacts = Infer<typeof savedSchema>;

/** The answer to `intervention.check`. */
export const programCheckSchema = object({
  text: withDefault(string, ''),
  graph: unknown,
  positions: withDefault(number, 0),
  ...kEffects,
});
export type ProgramCheck = Infer<typeof programCheckSchema>;

export const programAnswerSchema = object({ step: count, ranks: count, program: programSchema });
export const setAnswerSchema = object({ step: count, ranks: count, value: number });
export const removeAnswerSchema = object({ step: count, ranks: count, removed: array(string) });

export const previewSchema = object({
  step: count,
  batches: array(object({ batch: string, loss_off: nullable(number), loss_on: nullable(number) })),
  writes: withDefault(
    array(
      object({
        place: string,
        positions: count,
        norm_before: nullable(number),
        norm_change: nullable(number),
      }),
    ),
    [],
  ),
  notes: withDefault(array(string), []),
  /** Parsed by preview_records.ts of the feature: an error in them must not hide the other members. */
  records: unknown,
});
export type Preview = Infer<typeof previewSchema>;
