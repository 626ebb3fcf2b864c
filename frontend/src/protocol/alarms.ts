import {
  array,
  boolean,
  count,
  type Infer,
  nullable,
  number,
  object,
  oneOf,
  optional,
  string,
  withDefault,
} from '../base/schema';

// The schemas of the alarms in docs/alarms.md. A member that this version does not know is ignored.

/** The members of `alarms.set`: the curve that an alarm watches, and its test. */
const kRule = {
  name: string,
  scalar: optional(string),
  point: optional(string),
  statistic: optional(string),
  vector: optional(string),
  over: optional(string),
  column: optional(string),
  parameter: optional(string),
  layers: optional(string),
  direction: optional(string),
  phase: optional(string),
  prompts: optional(string),
  mean_over: optional(string),
  baseline: optional(boolean),
  test: string,
  value: optional(number),
  low: optional(number),
  high: optional(number),
  k: optional(number),
  side: optional(string),
  window: optional(count),
  first: optional(count),
  consecutive: optional(count),
  pause: optional(boolean),
};
export const alarmRuleSchema = object(kRule);
export type AlarmRule = Infer<typeof alarmRuleSchema>;

const changeSchema = object({
  step: count,
  /** Null stands for NaN, as in the hub's history. */
  value: nullable(number),
  layer: optional(count),
  message: string,
});

export const alarmSchema = object({
  ...kRule,
  state: oneOf('waiting', 'quiet', 'firing'),
  fires: withDefault(count, 0),
  firing_layers: optional(array(count)),
  /** The last time that the alarm fired or was cleared. */
  last: optional(changeSchema),
  /** The reason why the alarm can get no values. */
  problem: optional(string),
});
export type AlarmFacts = Infer<typeof alarmSchema>;

export const alarmEventSchema = object({
  change: oneOf('set', 'removed', 'fired', 'cleared'),
  step: optional(count),
  value: optional(nullable(number)),
  layer: optional(count),
  message: optional(string),
  pause_seconds: optional(count),
  alarm: alarmSchema,
});
export type AlarmEvent = Infer<typeof alarmEventSchema>;

export const alarmsSchema = object({ alarms: array(alarmSchema) });
export const alarmAnswerSchema = object({ alarm: alarmSchema });
