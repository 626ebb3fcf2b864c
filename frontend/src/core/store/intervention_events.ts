import type { Parser } from '../../base/schema';
import { array, number, object, optional, string, withDefault } from '../../base/schema';
import { interventionsSchema, type Program } from '../../protocol/interventions';
import type { Gist } from './event';

type Read = <T>(schema: Parser<T>, detail: unknown) => T | undefined;

const namedSchema = object({ params: object({ name: string }) });
const setSchema = object({ params: object({ name: string, parameter: string, value: number }) });
const removedSchema = object({
  result: object({ removed: withDefault(array(string), []), step: optional(number) }),
});

/** The text of an event about programs, by the reason in the notification. */
const kWords: Readonly<Record<string, (names: string) => string>> = {
  apply: (names) => `Applied ${names}`,
  remove: (names) => `Reverted ${names}`,
  expired: (names) => `Ended ${names} after the set number of steps`,
  lease: (names) => `Reverted ${names}: the lease of control ended`,
  failed: (names) => `Removed ${names} because of an error`,
};
const kTones: Readonly<Record<string, Gist['tone']>> = { lease: 'warn', failed: 'bad' };

/**
 * Reads the reports of one source about interventions. It keeps the programs in force, because a
 * change is the difference to the programs before.
 */
export class InterventionReader {
  private known: readonly Program[] = [];

  /** Sets the programs that are in force when the source begins, or begins again. */
  begin(programs: readonly Program[]): void {
    this.known = programs;
  }

  /** Reads the notification that the programs in force have changed. */
  changed(detail: unknown, read: Read): Gist | undefined {
    const facts = read(interventionsSchema, detail);
    if (facts === undefined) return undefined;
    const { step, programs, reason } = facts;
    const before = this.known;
    this.known = programs;
    if (reason === 'set') return at(step, setGist(before, programs));
    const names = reason === 'apply' ? appliedIn(before, programs, step) : goneOf(before, programs);
    return at(step, gistOf(reason, names));
  }
}

/** The event of a request in the audit trail; undefined if the request has another form. */
export function askedGist(kind: string, detail: unknown, read: Read): Gist | undefined {
  switch (kind) {
    case 'intervention.apply': {
      const name = read(namedSchema, detail)?.params.name;
      return name === undefined ? undefined : gistOf('apply', [name]);
    }
    case 'intervention.set': {
      const params = read(setSchema, detail)?.params;
      return params && valueGist(params.name, params.parameter, params.value);
    }
    default: {
      const removed = read(removedSchema, detail)?.result.removed ?? [];
      return gistOf(kind === 'intervention.revert' ? 'lease' : 'remove', removed);
    }
  }
}

function at(step: number, gist: Gist | undefined): Gist | undefined {
  return gist && { ...gist, step };
}

function gistOf(reason: string, names: readonly string[]): Gist | undefined {
  const words = kWords[reason];
  if (words === undefined || names.length === 0) return undefined;
  const all = [...names].sort().join(', ');
  const what = `intervention/${reason}/${all}`;
  return { kind: 'intervention', tone: kTones[reason] ?? 'plain', text: words(all), what };
}

function setGist(before: readonly Program[], programs: readonly Program[]): Gist | undefined {
  for (const { name, parameters } of programs) {
    const old = before.find((each) => each.name === name)?.parameters;
    for (const { name: parameter, value } of parameters) {
      const was = old?.find((each) => each.name === parameter)?.value;
      if (was !== undefined && was !== value) return valueGist(name, parameter, value);
    }
  }
  return undefined;
}

function valueGist(name: string, parameter: string, value: number): Gist {
  const about = `intervention/set/${name}/${parameter}`;
  const text = `${name}: ${parameter} = ${value}`;
  return { kind: 'intervention', tone: 'plain', text, what: `${about}/${value}` };
}

/** Whether two events set the same parameter. Consecutive ones are shown as one with the last value. */
export function isSameDial(first: string, second: string): boolean {
  const dialOf = (what: string): string => what.slice(0, what.lastIndexOf('/'));
  return first.startsWith('intervention/set/') && dialOf(first) === dialOf(second);
}

function appliedIn(
  before: readonly Program[],
  programs: readonly Program[],
  step: number,
): readonly string[] {
  const isNew = ({ name, since }: Program): boolean =>
    since === step || before.find((each) => each.name === name)?.since !== since;
  return programs.filter(isNew).map(({ name }) => name);
}

function goneOf(before: readonly Program[], programs: readonly Program[]): readonly string[] {
  return before
    .map(({ name }) => name)
    .filter((name) => !programs.some((program) => program.name === name));
}
