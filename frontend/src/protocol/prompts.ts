import {
  array,
  boolean,
  count,
  type Infer,
  object,
  optional,
  string,
  withDefault,
} from '../base/schema';
import { planSchema } from './messages';

// The schemas of the prompts in docs/protocol.md. A member that this version does not know is ignored.

/** The prompt-set numbers in the records of a typed prompt: `off` without programs, `on` with them. */
export const kTypedPrompt = { off: 0xffffffff, on: 0xfffffffe } as const;
export type Side = keyof typeof kTypedPrompt;

const programRunSchema = object({
  name: string,
  acted: boolean,
  failed: withDefault(count, 0),
  waiting: withDefault(count, 0),
  error: optional(string),
});
export type ProgramRun = Infer<typeof programRunSchema>;

export const promptAnswerSchema = object({
  step: count,
  tokens: array(count),
  plan: planSchema,
  records: object({ off: string, on: optional(string) }),
  programs: withDefault(array(programRunSchema), []),
  notes: withDefault(array(string), []),
});
export type PromptAnswer = Infer<typeof promptAnswerSchema>;

export const promptKeptSchema = object({ step: count, ranks: count, plan: planSchema });
